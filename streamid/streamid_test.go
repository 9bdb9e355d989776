package streamid_test

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/streamid"
)

func rules(t testing.TB, list ...streamid.Rule) func(schemas.Envelope) schemas.MessageStream {
	t.Helper()
	streams, err := streamid.New(list...)
	if err != nil {
		t.Fatal(err)
	}
	return streams
}

func TestStreamOfAMessage(t *testing.T) {
	e := schemas.Envelope{
		Exchange: "shop", RoutingKey: "order.42.created", Properties: schemas.Properties{CorrelationID: "c-1"},
		Headers: amqp.Table{
			"type": "order", "id": int64(42), "seven": int32(7), "text": "12", "zeros": "007", "negative": int32(-1),
			"plus": "+1", "half": 1.5, "whole": 3.0, "none": "", "list": []any{int32(1)}, "huge": "9223372036854775808",
		},
		Body: []byte(`{"order":{"id":42,"version":5,"text":"6","whole":5.0,"exponent":1e2,"negative":-5,"twice":1,"twice":2,"none":null}}`),
	}
	for name, test := range map[string]struct {
		id, version string
		want        schemas.MessageStream
	}{
		"a header":                 {"{headers.id}", "", schemas.MessageStream{ID: "42"}},
		"a field of the body":      {"order-{body.json.order.id}", "", schemas.MessageStream{ID: "order-42"}},
		"a pointer":                {"{body:/order/id}", "", schemas.MessageStream{ID: "42"}},
		"a word of the key":        {"{routing_key.1}-{routing_key.2}", "", schemas.MessageStream{ID: "order-42"}},
		"several":                  {"{headers.type}/{body.json.order.id}", "", schemas.MessageStream{ID: "order/42"}},
		"a property":               {"{correlation_id}", "", schemas.MessageStream{ID: "c-1"}},
		"an absent header":         {"{headers.nobody}", "{headers.seven}", schemas.MessageStream{}},
		"one of two is absent":     {"{headers.type}-{headers.nobody}", "", schemas.MessageStream{}},
		"an empty header":          {"{headers.none}", "", schemas.MessageStream{}},
		"a list":                   {"{headers.list}", "", schemas.MessageStream{}},
		"an object":                {"{body.json.order}", "", schemas.MessageStream{}},
		"null":                     {"{body.json.order.none}", "", schemas.MessageStream{}},
		"a name that is twice":     {"{body.json.order.twice}", "", schemas.MessageStream{}},
		"a word that is not":       {"{routing_key.4}", "", schemas.MessageStream{}},
		"a version of a header":    {"{headers.id}", "{headers.seven}", schemas.MessageStream{ID: "42", Version: 7, HasVersion: true}},
		"a version of the body":    {"{headers.id}", "{body.json.order.version}", schemas.MessageStream{ID: "42", Version: 5, HasVersion: true}},
		"a version in the key":     {"{headers.id}", "{routing_key.2}", schemas.MessageStream{ID: "42", Version: 42, HasVersion: true}},
		"a version as text":        {"{headers.id}", "{headers.text}", schemas.MessageStream{ID: "42", Version: 12, HasVersion: true}},
		"as text of the body":      {"{headers.id}", "{body.json.order.text}", schemas.MessageStream{ID: "42", Version: 6, HasVersion: true}},
		"with zeros":               {"{headers.id}", "{headers.zeros}", schemas.MessageStream{ID: "42", Version: 7, HasVersion: true}},
		"a whole float":            {"{headers.id}", "{headers.whole}", schemas.MessageStream{ID: "42", Version: 3, HasVersion: true}},
		"a float of the body":      {"{headers.id}", "{body.json.order.whole}", schemas.MessageStream{ID: "42"}},
		"an exponent":              {"{headers.id}", "{body.json.order.exponent}", schemas.MessageStream{ID: "42"}},
		"a half":                   {"{headers.id}", "{headers.half}", schemas.MessageStream{ID: "42"}},
		"negative":                 {"{headers.id}", "{headers.negative}", schemas.MessageStream{ID: "42"}},
		"negative in the body":     {"{headers.id}", "{body.json.order.negative}", schemas.MessageStream{ID: "42"}},
		"a plus":                   {"{headers.id}", "{headers.plus}", schemas.MessageStream{ID: "42"}},
		"more than 64 bits":        {"{headers.id}", "{headers.huge}", schemas.MessageStream{ID: "42"}},
		"a version that is not":    {"{headers.id}", "{headers.nobody}", schemas.MessageStream{ID: "42"}},
		"a version that is a word": {"{headers.id}", "{headers.type}", schemas.MessageStream{ID: "42"}},
	} {
		if got := rules(t, streamid.Rule{ID: test.id, Version: test.version})(e); got != test.want {
			t.Errorf("%s: %s, %s: got %+v, want %+v", name, test.id, test.version, got, test.want)
		}
	}
}

// The first rule for the exchange and routing key that gives an id counts, with its version.
func TestRulesByExchangeAndKey(t *testing.T) {
	streams := rules(t,
		streamid.Rule{Exchange: "shop", Key: "order.*", ID: "order-{headers.id}", Version: "{headers.version}"},
		streamid.Rule{Exchange: "shop", ID: "shop-{headers.shop}"},
		streamid.Rule{Key: "#.audit", ID: "audit-{exchange}"},
	)
	for name, test := range map[string]struct {
		exchange, key string
		headers       amqp.Table
		want          string
	}{
		"the first rule":                   {"shop", "order.created", amqp.Table{"id": "1"}, "order-1"},
		"another key":                      {"shop", "order.created.again", amqp.Table{"id": "1", "shop": "2"}, "shop-2"},
		"without the id of the first rule": {"shop", "order.created", amqp.Table{"shop": "2"}, "shop-2"},
		"another exchange":                 {"mail", "order.created", amqp.Table{"id": "1", "shop": "2"}, ""},
		"a rule for every exchange":        {"mail", "a.b.audit", nil, "audit-mail"},
		"without any id":                   {"shop", "order.created", nil, ""},
	} {
		if got := streams(schemas.Envelope{Exchange: test.exchange, RoutingKey: test.key, Headers: test.headers}); got.ID != test.want {
			t.Errorf("%s: got %q, want %q", name, got.ID, test.want)
		}
	}
}

func TestRulesThatAreRefused(t *testing.T) {
	for want, rule := range map[string]streamid.Rule{
		`rule 1 of streams: id "": expected a field of the message, such as {headers.order_id}`:             {},
		`rule 1 of streams: id "order": expected a field of the message, such as {headers.order_id}`:        {ID: "order"},
		`rule 1 of streams: version "1": expected a field of the message, such as {headers.version}`:        {ID: "{type}", Version: "1"},
		`rule 1 of streams: id "{headers}": found {headers}: expected {headers.NAME}, {body.json.NAME}, `:   {ID: "{headers}"},
		`rule 1 of streams: version "{a}": found {a}: expected {headers.NAME}, {body.json.NAME}, {body:/JS`: {ID: "{type}", Version: "{a}"},
	} {
		if _, err := streamid.New(rule); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: got %v, want %s", rule, err, want)
		}
	}
	if streams, err := streamid.New(); streams != nil || err != nil {
		t.Errorf("without rules there is a function, %v", err)
	}
}

package schemas_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/internal/headertext"
	"github.com/watershipmq/watership/schemas/tablejson"
)

func TestTableKeepsEveryType(t *testing.T) {
	table := wiretest.EveryType()
	got, err := tablejson.Parse(tablejson.Append(nil, table))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(table, got, wiretest.Bitwise()); diff != "" {
		t.Errorf("a table changed on its way through JSON (-want +got):\n%s", diff)
	}
}

func TestDocumentKeepsTheEvent(t *testing.T) {
	for name, body := range map[string][]byte{
		"empty": nil, "text": []byte("hello"), "json": []byte(`{"a":{"b":[1,2]}}`), "binary": {0, 1, 0xff},
	} {
		t.Run(name, func(t *testing.T) {
			want := wiretest.FailedEvent(body)
			want.Failure.Rule, want.QuarantinedFailure.Rule = "no-stock", "no-customer"
			got, err := schemas.ParseDocument(schemas.DocumentFormat{}.Append(nil, want))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, wiretest.Bitwise(), cmpopts.IgnoreUnexported(schemas.Event{})); diff != "" {
				t.Errorf("an event changed on its way through its document (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseDocumentRefusesWhatItDoesNotKnow(t *testing.T) {
	for _, source := range []string{`{`, `{}`, `{"watership":{"version":99}}`, `{"watership":{"version":1},"amqp":{"headers":[{"key":"a","float128":1}]}}`} {
		if _, err := schemas.ParseDocument([]byte(source)); err == nil {
			t.Errorf("ParseDocument(%s) gave no error", source)
		}
	}
}

// All headers are kept, but of many headers only some are searchable.
func TestManyHeadersAreNotSearchable(t *testing.T) {
	many, list := amqp.Table{}, make([]any, 2000)
	for n := range list {
		list[n] = int32(n)
		many[fmt.Sprintf("h%04d", n)] = int32(n)
	}
	for name, headers := range map[string]amqp.Table{
		"headers": many, "values of one": {"a": list}, "headers of one": {"a": many},
		"of several": {"a": list[:600], "b": many, "c": "last"},
	} {
		event := schemas.Event{Envelope: schemas.Envelope{Headers: headers}}
		document := schemas.DocumentFormat{}.Append(nil, event)
		var read struct {
			Headers any `json:"headers"`
		}
		if err := json.Unmarshal(document, &read); err != nil {
			t.Fatal(err)
		}
		if values := leaves(read.Headers); values != headertext.Most {
			t.Errorf("%s: %d values are searchable", name, values)
		}
		wiretest.WantEnvelope(t, wiretest.ThroughDocument(t, event).Envelope, event.Envelope)
	}
}

func leaves(value any) (count int) {
	switch v := value.(type) {
	case map[string]any:
		for _, child := range v {
			count += leaves(child)
		}
	case []any:
		for _, child := range v {
			count += leaves(child)
		}
	default:
		return 1
	}
	return count
}

// Elasticsearch runs out of memory when it indexes a document with more values than
// this, and would receive it again after each restart. A document with fewer values
// takes either store seconds.
func TestManyValuesAreNotSearchable(t *testing.T) {
	object := func(key, value string, values int) []byte {
		return []byte(`{"` + key + `":[` + strings.Repeat(value+",", values-1) + value + "]}")
	}
	const as, many = 0, 10_000_000 // the default, and practically no limit
	for name, c := range map[string]struct {
		body       []byte
		most       int
		searchable bool
	}{
		"5,000 values":               {object("a", `"seven"`, 5_000), as, true},
		"5,001 values":               {object("a", `"seven"`, 5_001), as, false},
		"5,001 values of objects":    {object("a", `{"b":[null]}`, 5_001), as, false},
		"100,000 values":             {object("a", `"seven"`, 100_000), many, true},
		"1,600,000 values":           {object("a", `"seven"`, 1_600_000), many, false},
		"1,600,000 numbers":          {object("a", "1", 1_600_000), many, false},
		"100,000 values, a long way": {object(strings.Repeat("k", 3000), "1", 100_000), many, false},
	} {
		t.Run(name, func(t *testing.T) {
			event := wiretest.FailedEvent(c.body)
			if is := bytes.Contains(schemas.DocumentFormat{MaxValues: c.most}.Append(nil, event), []byte(`,"json":{`)); is != c.searchable {
				t.Errorf("searchable: %v", is)
			}
			if parsed := wiretest.ThroughDocument(t, event); !bytes.Equal(parsed.Envelope.Body, c.body) {
				t.Error("the body changed on its way through the document")
			}
		})
	}
}

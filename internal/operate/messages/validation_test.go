package messages

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/pipeline/bodyschema"
	"github.com/watershipmq/watership/schemas"
)

// orderSchema wants an object with an id.
const orderSchema = `{"type":"object","required":["id"],"properties":{"id":{"type":"integer"}}}`

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// schemaFile writes a schema and returns its path.
func schemaFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "order.json")
	must(t, os.WriteFile(file, []byte(orderSchema), 0o600))
	return file
}

// published returns the event of a message with a body.
func published(body string) schemas.Event {
	return schemas.Event{Action: schemas.Published, Envelope: schemas.Envelope{
		Exchange: "shop", RoutingKey: "paid", Body: []byte(body), Properties: schemas.Properties{MessageID: "m", ContentType: "application/json"},
	}}
}

// check checks all stored messages with a Config, and returns those that do not fit.
func check(t *testing.T, cfg ValidationConfig, events ...schemas.Event) (Summary, []InvalidMessage) {
	t.Helper()
	sys, _ := systemtest.Embedded(t)
	systemtest.Record(t, sys, events...)
	schema, err := bodyschema.Load(schemaFile(t))
	must(t, err)
	cfg.Schema = schema
	var invalid []InvalidMessage
	summary, err := Stored(t.Context(), sys, cfg, eventstore.Selection{Query: kql.All{}}, func(m InvalidMessage) error {
		invalid = append(invalid, m)
		return nil
	})
	must(t, err)
	return summary, invalid
}

func TestMessagesThatFit(t *testing.T) {
	summary, invalid := check(t, ValidationConfig{}, published(`{"id":1}`), published(`{"id":2,"more":true}`))
	if diff := cmp.Diff(Summary{Messages: 2, Schema: "order.json"}, summary); diff != "" || len(invalid) != 0 {
		t.Errorf("%s%+v", diff, invalid)
	}
}

func TestAMessageThatDoesNotFit(t *testing.T) {
	e := published(`{"id":"one"}`)
	e.EventID = "e-1"
	summary, invalid := check(t, ValidationConfig{}, published(`{"id":1}`), e)
	if summary.Messages != 2 || summary.Failed != 1 || len(invalid) != 1 {
		t.Fatalf("%+v, %+v", summary, invalid)
	}
	m := invalid[0]
	if m.Event != "e-1" || m.MessageID != "m" || m.Exchange != "shop" || m.RoutingKey != "paid" || m.Fingerprint != e.Envelope.Fingerprint() || m.Time.IsZero() {
		t.Errorf("%+v", m)
	}
	if !strings.Contains(m.Error, "/id") {
		t.Errorf("the error has no path: %s", m.Error)
	}
}

func TestBodiesThatAreNoJSONDoNotFit(t *testing.T) {
	for _, body := range []string{"", "no JSON", "\xff"} {
		if summary, _ := check(t, ValidationConfig{}, published(body)); summary.Failed != 1 {
			t.Errorf("%q: %+v", body, summary)
		}
	}
}

// A message has an event for each thing that happens to it, and counts once.
func TestEqualMessagesCountOnce(t *testing.T) {
	handled := published(`{"id":1}`)
	handled.Action = schemas.Handled
	if summary, _ := check(t, ValidationConfig{}, published(`{"id":1}`), handled, published(`{"id":1}`)); summary.Messages != 1 {
		t.Errorf("%+v", summary)
	}
}

func TestEventsOfNoMessageAreLeftOut(t *testing.T) {
	if summary, _ := check(t, ValidationConfig{}, schemas.Event{Action: schemas.Paused}, schemas.Event{Action: schemas.Triaged}); summary.Messages != 0 || summary.Unknown != 0 {
		t.Errorf("%+v", summary)
	}
}

// An event without a body is checked with that of the published event of its message.
func TestBodiesAreFoundInOtherEvents(t *testing.T) {
	whole := published(`{"id":"one"}`)
	failed := whole
	failed.Action, failed.Fingerprint, failed.BodyIn = schemas.Poisoned, whole.Envelope.Fingerprint(), schemas.BodyInPublished
	failed.BodySize, failed.Envelope.Body = len(whole.Envelope.Body), nil
	if summary, _ := check(t, ValidationConfig{}, failed, whole); summary.Messages != 1 || summary.Failed != 1 || summary.Unknown != 0 {
		t.Errorf("%+v", summary)
	}
}

func TestAMessageWhoseBodyNoEventHas(t *testing.T) {
	var lost []schemas.Event
	for n := range lookup + 1 { // more than are looked up at once
		e := published(fmt.Sprintf(`{"id":%d}`, n))
		e.Action, e.Fingerprint, e.BodyIn, e.BodySize = schemas.Poisoned, e.Envelope.Fingerprint(), schemas.BodyInPublished, len(e.Envelope.Body)
		e.Envelope.Body = nil
		lost = append(lost, e)
	}
	if summary, _ := check(t, ValidationConfig{}, lost...); summary.Messages != 0 || summary.Unknown != lookup+1 {
		t.Errorf("%+v", summary)
	}
}

func TestALimitOfMessages(t *testing.T) {
	three := []schemas.Event{published(`{"id":1}`), published(`{"id":2}`), published(`{"id":3}`)}
	for limit, want := range map[int]Summary{0: {Messages: 3}, 2: {Messages: 2, More: true}, 3: {Messages: 3}} {
		want.Schema = "order.json"
		if summary, _ := check(t, ValidationConfig{Limit: limit}, three...); summary != want {
			t.Errorf("limit %d: %+v, want %+v", limit, summary, want)
		}
	}
}

func TestEachMessageIsReported(t *testing.T) {
	checked := 0
	check(t, ValidationConfig{Checked: func() error { checked++; return nil }}, published(`{"id":1}`), published(`{}`))
	if checked != 2 {
		t.Errorf("%d messages", checked)
	}
}

func TestAnErrorEndsAValidation(t *testing.T) {
	full := errors.New("the disk is full")
	each := func(InvalidMessage) error { return nil }
	for name, test := range map[string]struct {
		checked func() error
		each    func(InvalidMessage) error
	}{
		"of the caller":    {func() error { return full }, each},
		"of the next step": {nil, func(InvalidMessage) error { return full }},
	} {
		t.Run(name, func(t *testing.T) {
			sys, _ := systemtest.Embedded(t)
			systemtest.Record(t, sys, published(`{}`), published(`{"id":"x"}`))
			schema, err := bodyschema.Load(schemaFile(t))
			must(t, err)
			summary, err := Stored(t.Context(), sys, ValidationConfig{Schema: schema, Checked: test.checked}, eventstore.Selection{Query: kql.All{}}, test.each)
			if !errors.Is(err, full) || summary.Messages != 1 {
				t.Errorf("%+v, %v", summary, err)
			}
		})
	}
}

func TestAValidationEndsWithItsContext(t *testing.T) {
	sys, _ := systemtest.Embedded(t)
	schema, err := bodyschema.Load(schemaFile(t))
	must(t, err)
	store, err := sys.Store(t.Context())
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, ValidationConfig{Store: store, Schema: schema}, eventstore.Selection{Query: kql.All{}}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestTheSchemaOfARoute(t *testing.T) {
	file := schemaFile(t)
	sys := systemtest.New(t, `WATERSHIP_ROUTES=[{queue: orders, schema: "`+file+`", handler: {http: {url: "http://127.0.0.1:1/"}}}, `+
		`{queue: plain, handler: {http: {url: "http://127.0.0.1:1/"}}}, {queue: lost, schema: "`+file+`.gone", handler: {http: {url: "http://127.0.0.1:1/"}}}]`)
	schema, err := RouteSchema(sys, "orders")
	if err != nil || schema.Name() != "order.json" || schema.Check([]byte(`{"id":1}`)) != nil {
		t.Errorf("%v", err)
	}
	for queue, want := range map[string]string{
		"nowhere": "the configuration has no route of queue nowhere", "plain": "the route of queue plain has no schema", "lost": "order.json.gone",
	} {
		_, err := RouteSchema(sys, queue)
		var input system.InputError
		if !errors.As(err, &input) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", queue, err, want)
		}
	}
}

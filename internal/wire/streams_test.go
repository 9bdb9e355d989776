package wire

import (
	"bytes"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
)

// orderStreams finds the stream of an order in the body, and else in a header.
func orderStreams(e schemas.Envelope) schemas.MessageStream {
	if id, found := bytes.CutPrefix(e.Body, []byte("order ")); found {
		return schemas.MessageStream{ID: "order-" + string(id), Version: 0, HasVersion: true}
	}
	id, _ := e.Headers["order"].(string)
	return schemas.MessageStream{ID: id}
}

// Every event of a message has the same stream: from the message, or, if it travels without
// its body, from the process that omitted the body.
func TestEventsOfAMessageHaveItsStream(t *testing.T) {
	dec := Decoder{Streams: orderStreams}
	e := schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Headers: amqp.Table{"order": "of the header"}, Body: []byte("order 7")}
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	want := schemas.MessageStream{ID: "order-7", HasVersion: true}
	state := schemas.State{Fingerprint: e.Fingerprint(), EventID: "01K", Time: at, Queue: "orders", Attempt: 1}
	found := state
	found.Stream = want
	omitted := OmittedBody{Size: len(e.Body), In: schemas.BodyInPublished}
	bodyless := e
	bodyless.Body = nil
	replayed := schemas.Event{State: found, Action: schemas.Replayed, Envelope: bodyless, BodySize: len(e.Body), BodyIn: schemas.BodyInPublished}
	for name, test := range map[string]struct {
		event schemas.Event
		want  schemas.MessageStream
	}{
		"the tap's copy":                 {dec.Tapped(wiretest.Delivery(e), at, 1), want},
		"an event with the body":         {lifecycle(t, dec, DefaultFrameMax.Wrap(e, state)), want},
		"another claim beside the body":  {lifecycle(t, dec, DefaultFrameMax.Wrap(e, schemas.State{Fingerprint: state.Fingerprint, EventID: "01K", Time: at, Stream: schemas.MessageStream{ID: "claimed"}})), want},
		"an event without it":            {lifecycle(t, dec, DefaultFrameMax.WrapWithoutBody(e, found, omitted)), want},
		"a sender without streams":       {lifecycle(t, dec, DefaultFrameMax.WrapWithoutBody(e, state, omitted)), schemas.MessageStream{ID: "of the header"}},
		"of a bundle":                    {unbundled(t, dec, replayed), want},
		"an indexer without streams":     {lifecycle(t, Decoder{}, DefaultFrameMax.WrapWithoutBody(e, found, omitted)), schemas.MessageStream{}},
		"a bundle without streams":       {unbundled(t, Decoder{}, replayed), schemas.MessageStream{}},
		"the document":                   {reparsed(t, schemas.Event{State: found, Action: schemas.Handled, Envelope: e}), want},
		"a publisher that copies a mark": {dec.Tapped(wiretest.Delivery(schemas.Envelope{Headers: amqp.Table{headerStream: "forged", headerVersion: int64(1)}}), at, 1), schemas.MessageStream{}},
	} {
		if test.event.Stream != test.want {
			t.Errorf("%s: got stream %+v, want %+v", name, test.event.Stream, test.want)
		}
		if name != "a publisher that copies a mark" && test.event.Fingerprint != e.Fingerprint() {
			t.Errorf("%s: its fingerprint is %s", name, test.event.Fingerprint)
		}
	}
}

func lifecycle(t *testing.T, dec Decoder, p amqp.Publishing) schemas.Event {
	t.Helper()
	event, err := dec.Lifecycle(amqp.Delivery{
		Exchange: dec.Topology.Events(), RoutingKey: string(schemas.Handled), Headers: p.Headers, Body: p.Body,
	}, time.Now(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return event
}

func unbundled(t *testing.T, dec Decoder, e schemas.Event) schemas.Event {
	t.Helper()
	events, isBundle := dec.Unbundle(bundled(dec, e))
	if !isBundle || len(events) != 1 {
		t.Fatalf("it is no bundle of one: %v", events)
	}
	return events[0]
}

func reparsed(t *testing.T, e schemas.Event) schemas.Event {
	t.Helper()
	event, err := schemas.ParseDocument(schemas.DocumentFormat{}.Append(nil, e))
	if err != nil {
		t.Fatal(err)
	}
	return event
}

// A stream with values that no store could search is none; events about no message have none.
func TestStreamsAreBounded(t *testing.T) {
	for name, test := range map[string]struct{ found, want schemas.MessageStream }{
		"none":                  {},
		"an id":                 {schemas.MessageStream{ID: "a"}, schemas.MessageStream{ID: "a"}},
		"the longest id":        {schemas.MessageStream{ID: strings.Repeat("é", 256)}, schemas.MessageStream{ID: strings.Repeat("é", 256)}},
		"a longer id":           {schemas.MessageStream{ID: strings.Repeat("x", 513), Version: 1, HasVersion: true}, schemas.MessageStream{}},
		"no UTF-8":              {schemas.MessageStream{ID: "\xff"}, schemas.MessageStream{}},
		"a line break":          {schemas.MessageStream{ID: "a\nb"}, schemas.MessageStream{}},
		"a version alone":       {schemas.MessageStream{Version: 1, HasVersion: true}, schemas.MessageStream{}},
		"a negative version":    {schemas.MessageStream{ID: "a", Version: -1, HasVersion: true}, schemas.MessageStream{ID: "a"}},
		"a version that counts": {schemas.MessageStream{ID: "a", Version: 1 << 53, HasVersion: true}, schemas.MessageStream{ID: "a", Version: 1 << 53, HasVersion: true}},
		"a version over 2⁵³":    {schemas.MessageStream{ID: "a", Version: 1<<53 + 1, HasVersion: true}, schemas.MessageStream{ID: "a"}},
	} {
		dec := Decoder{Streams: func(schemas.Envelope) schemas.MessageStream { return test.found }}
		if got := dec.Tapped(amqp.Delivery{Exchange: "shop"}, time.Now(), 1).Stream; got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
	dec := Decoder{Streams: func(schemas.Envelope) schemas.MessageStream { return schemas.MessageStream{ID: "of every message"} }}
	paused := DefaultFrameMax.Wrap(schemas.Envelope{}, schemas.State{Fingerprint: schemas.Envelope{}.Fingerprint(), EventID: "01K", Time: time.Now()})
	event, err := dec.Lifecycle(amqp.Delivery{Exchange: dec.Topology.Events(), RoutingKey: string(schemas.Paused), Headers: paused.Headers}, time.Now(), 1)
	if err != nil || event.Stream != (schemas.MessageStream{}) {
		t.Errorf("an event of a route has stream %+v, %v", event.Stream, err)
	}
}

// Without streams, a document is what it was before.
func TestDocumentWithoutAStreamHasNoField(t *testing.T) {
	if document := (schemas.DocumentFormat{}).Append(nil, wiretest.FailedEvent(nil)); bytes.Contains(document, []byte(`"stream"`)) {
		t.Errorf("the document is %s", document)
	}
}

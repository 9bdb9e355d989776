package wire

import (
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/internal/wire/wiretest"
	"github.com/watershipmq/watership/schemas"
)

// bundled returns a delivery with several events.
func bundled(dec Decoder, events ...schemas.Event) amqp.Delivery {
	var b Bundle
	for _, e := range events {
		b.Add(e)
	}
	p := b.Publishing()
	return amqp.Delivery{
		Exchange: dec.Topology.Events(), RoutingKey: string(schemas.Replayed), Headers: p.Headers, Body: p.Body,
	}
}

func replayedEvents() []schemas.Event {
	var events []schemas.Event
	for n, e := range []schemas.Envelope{wiretest.EveryEnvelope(), {RoutingKey: "orders", Body: []byte("x")}, nearlyFull(frameMax)} {
		state := fullState(e.Fingerprint())
		state.EventID = string(rune('a' + n))
		state.MissingSince, state.NotBefore, state.Undecided, state.Untapped = time.Time{}, time.Time{}, false, false // no document has them
		state.Time = state.Time.Truncate(time.Microsecond)                                                            // the precision of documents
		state.FirstFailed = state.FirstFailed.Truncate(time.Microsecond)
		for i := range state.Attempts {
			state.Attempts[i].Time = state.Attempts[i].Time.Truncate(time.Microsecond)
		}
		event := schemas.Event{State: state, Action: schemas.Replayed, Envelope: e, BodySize: len(e.Body)}
		if n > 0 {
			event.BodyIn, event.Envelope.Body = schemas.BodyInPublished, nil
		}
		events = append(events, event)
	}
	return events
}

func TestBundledEventsAreThoseThatWentIn(t *testing.T) {
	dec := Decoder{Source: "shop", VHost: "/"}
	want := replayedEvents()
	got, isBundle := dec.Unbundle(bundled(dec, want...))
	if !isBundle {
		t.Fatal("it is no bundle")
	}
	for n := range want {
		want[n].Source, want[n].VHost, want[n].TimeSource = "shop", "/", TimeOfEvent
	}
	if diff := cmp.Diff(want, got, wiretest.Bitwise(), cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(schemas.Event{})); diff != "" {
		t.Errorf("events changed on their way (-want +got):\n%s", diff)
	}
}

// A bundle that is used again has none of its former events.
func TestABundleIsEmptyOncePublished(t *testing.T) {
	var b Bundle
	for _, e := range replayedEvents() {
		b.Add(e)
		d := amqp.Delivery{Exchange: schemas.Topology{}.Events(), RoutingKey: string(schemas.Replayed)}
		p := b.Publishing()
		d.Headers, d.Body = p.Headers, p.Body
		if got, _ := (Decoder{}).Unbundle(d); len(got) != 1 || got[0].EventID != e.EventID || b.Len()+b.Size() > 0 {
			t.Errorf("%d events, %d are left", len(got), b.Len())
		}
	}
}

// TestWhatIsNoBundleStaysAsItIs: a service may have copied Watership's headers, or
// a newer version may have written another format.
func TestWhatIsNoBundleStaysAsItIs(t *testing.T) {
	var dec Decoder
	events := replayedEvents()
	good := bundled(dec, events...)
	line := string(events[1].AppendExact(nil))
	nameless, other := events[1], events[1]
	nameless.EventID, other.Action = "", schemas.Poisoned
	unknown := events[1]
	unknown.Fingerprint = ""
	zipped := func(lines string) []byte {
		var text bytes.Buffer
		zip := gzip.NewWriter(&text)
		_, _ = zip.Write([]byte(lines))
		_ = zip.Close()
		return text.Bytes()
	}
	for name, change := range map[string]func(*amqp.Delivery){
		"another exchange":        func(d *amqp.Delivery) { d.Exchange = "shop" },
		"a newer version":         func(d *amqp.Delivery) { d.Headers[headerVersion] = int64(header.Version + 1) },
		"another form":            func(d *amqp.Delivery) { d.Headers[headerBundled] = int64(bundledVersion + 1) },
		"no body":                 func(d *amqp.Delivery) { d.Body = nil },
		"no event":                func(d *amqp.Delivery) { d.Body = zipped("") },
		"an ordinary body":        func(d *amqp.Delivery) { d.Body = []byte(`{"order":1}`) },
		"another document":        func(d *amqp.Delivery) { d.Body = zipped(`{"order":1}`) },
		"cut short":               func(d *amqp.Delivery) { d.Body = d.Body[:len(d.Body)-1] },
		"a line cut short":        func(d *amqp.Delivery) { d.Body = zipped(line[:200]) },
		"something behind it":     func(d *amqp.Delivery) { d.Body = append(slices.Clone(d.Body), 0) },
		"an event without id":     func(d *amqp.Delivery) { d.Body = bundled(dec, events[0], nameless).Body },
		"one without fingerprint": func(d *amqp.Delivery) { d.Body = bundled(dec, events[0], unknown).Body },
		"more than is sensible":   func(d *amqp.Delivery) { d.Body = bundled(dec, slices.Repeat(events[1:2], mostBundled+1)...).Body },
		"of another action":       func(d *amqp.Delivery) { d.Body = bundled(dec, events[0], other).Body },
		"larger than is sensible": func(d *amqp.Delivery) { d.Body = zipped(line + strings.Repeat(" ", largestBundle)) },
	} {
		d := good
		d.Headers = amqp.Table{headerVersion: int64(header.Version), headerBundled: int64(bundledVersion)}
		change(&d)
		if got, isBundle := dec.Unbundle(d); isBundle || got != nil {
			t.Errorf("%s: was unbundled", name)
		}
	}
}

// A publisher cannot say that its events are redacted already, so that they keep values.
func TestBundledEventsAreNotRedacted(t *testing.T) {
	event := replayedEvents()[0]
	event.Redacted, event.Envelope.Redacted, event.Sealed, event.Subjects = true, true, []byte("sealed"), []string{"subject_0123456789abcdef0123"}
	got, isBundle := (Decoder{}).Unbundle(bundled(Decoder{}, event))
	if !isBundle || got[0].Redacted || got[0].Envelope.Redacted || len(got[0].Sealed)+len(got[0].Subjects) > 0 {
		t.Errorf("a bundle: %v, %+v", isBundle, got)
	}
}

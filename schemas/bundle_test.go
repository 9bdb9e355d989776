package schemas

import (
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// bundled are the messages of everyEnvelope and of others, as events that are
// about them, in one delivery.
func bundled(dec Decoder, envelopes ...Envelope) amqp.Delivery {
	var b Bundle
	for n, e := range envelopes {
		state := fullState(e.Fingerprint())
		state.EventID = string(rune('a' + n))
		b.Add(WrapWithoutBody(e, state))
	}
	p := b.Publishing()
	return amqp.Delivery{
		Exchange: dec.Topology.Events(), RoutingKey: string(Replayed), DeliveryTag: 7, Redelivered: true,
		Headers: p.Headers, DeliveryMode: p.DeliveryMode, Body: p.Body,
	}
}

func TestBundledEventsAreThoseThatWentIn(t *testing.T) {
	var dec Decoder
	envelopes := []Envelope{everyEnvelope(), {RoutingKey: "orders", Body: []byte("x")}, nearlyFull(frameMax)}
	d := bundled(dec, envelopes...)
	n := 0
	for single := range dec.Unbundle(d) {
		e := envelopes[n]
		alone := WrapWithoutBody(e, State{EventID: string(rune('a' + n)), Fingerprint: e.Fingerprint()})
		if single.DeliveryTag != d.DeliveryTag || !single.Redelivered || single.DeliveryMode != alone.DeliveryMode {
			t.Errorf("event %d came as %+v", n, single)
		}
		event, err := dec.Lifecycle(single, time.Now(), int64(n))
		if err != nil {
			t.Fatal(err)
		}
		if event.EventID != string(rune('a'+n)) || event.Action != Replayed || event.BodyIn != BodyInPublished || event.BodySize != len(e.Body) {
			t.Errorf("event %d is %+v", n, event)
		}
		e.Body = nil
		wantEnvelope(t, event.Envelope, e)
		n++
	}
	if n != len(envelopes) {
		t.Errorf("%d events of %d", n, len(envelopes))
	}
}

// TestWhatIsNoBundleStaysAsItIs: a service may have copied our headers, a newer
// version may have written another form.
func TestWhatIsNoBundleStaysAsItIs(t *testing.T) {
	var dec Decoder
	good := bundled(dec, everyEnvelope(), everyEnvelope())
	for name, change := range map[string]func(*amqp.Delivery){
		"another exchange": func(d *amqp.Delivery) { d.Exchange = "shop" },
		"a newer version":  func(d *amqp.Delivery) { d.Headers[headerVersion] = int64(WireVersion + 1) },
		"another form":     func(d *amqp.Delivery) { d.Headers[headerBundled] = int64(bundledVersion + 1) },
		"no body":          func(d *amqp.Delivery) { d.Body = nil },
		"an ordinary body": func(d *amqp.Delivery) { d.Body = []byte(`{"order":1}`) },
		"cut short":        func(d *amqp.Delivery) { d.Body = d.Body[:len(d.Body)-1] },
		"cut in a length":  func(d *amqp.Delivery) { d.Body = append(slices.Clone(d.Body), 0) },
		"broken JSON":      func(d *amqp.Delivery) { d.Body = append([]byte{0, 0, 0, 1, 'x', 0, 0, 0, 0}, d.Body...) },
	} {
		d := good
		d.Headers = amqp.Table{headerVersion: int64(WireVersion), headerBundled: int64(bundledVersion)}
		change(&d)
		for single := range dec.Unbundle(d) {
			if string(single.Body) != string(d.Body) || single.Headers[headerBundled] == nil {
				t.Errorf("%s: was unbundled", name)
			}
		}
	}
}

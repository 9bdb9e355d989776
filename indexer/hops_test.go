package indexer

import (
	"bytes"
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// everyProperty has every property and every field type that a broker takes.
func (s *system) everyProperty() schemas.Envelope {
	return schemas.Envelope{
		Exchange: s.shop, RoutingKey: "order.é\xff", Body: []byte{0, 1, 0xff},
		Properties: schemas.Properties{
			ContentType: "text/plain", ContentEncoding: "gzip", DeliveryMode: 2, Priority: 7,
			CorrelationID: "corr", ReplyTo: "reply \xff", Expiration: "300000", MessageID: "m-1",
			Timestamp: time.Unix(1700000000, 0), Type: "order", UserID: "guest", AppID: "shop",
		},
		Headers: amqp091.Table{
			"bool": true, "int8": int8(-8), "uint8": uint8(200), "int16": int16(-16), "uint16": uint16(60000),
			"int32": int32(-32), "uint32": uint32(4e9), "int64": int64(math.MinInt64), "float32": float32(0.1),
			"float64": math.Copysign(0, -1), "denormal": math.SmallestNonzeroFloat64,
			"decimal": amqp091.Decimal{Scale: 2, Value: -12345}, "string": "é \x00 \" \\ \u2028",
			"not utf-8 \xff": "\xfe\xff", "bytes": []byte{0, 255}, "none": nil, "": "an empty key",
			"time": time.Unix(math.MaxInt64, 0), "year 0": time.Unix(-62167219200, 0), "x-custom": "the publisher's",
			"array": []any{int32(1), "two", []any{}, amqp091.Table{"deep": nil}},
			"table": amqp091.Table{"a.b": amqp091.Table{"c": int64(1)}},
			"CC":    []any{"copy"}, "BCC": []any{"blind"},
		},
	}
}

// TestEveryHopKeepsTheMessage sends a message through everything that moves
// one, and wants its fingerprint and its envelope after each.
func TestEveryHopKeepsTheMessage(t *testing.T) {
	rabbittest.WithPolicies(t, func(t *testing.T, b rabbittest.Broker) {
		s := newSystem(t, b)
		e := s.everyProperty()
		h := &hops{system: s, want: e, fingerprint: e.Fingerprint(), queue: "orders." + s.topology.Prefix}
		delete(h.want.Headers, "BCC") // never reaches a consumer
		h.declareQueue()
		for _, hop := range []struct {
			name string
			run  func(*testing.T)
		}{
			{"publish to tap and queue", h.tap},
			{"expiry in the tap's queue", h.expiry},
			{"dead letter", h.deadLetter},
			{"delay queue", h.delay},
			{"last hop by the queue's name", func(t *testing.T) { h.lastHop(t, s.topology.Direct(), h.queue) }},
			{"last hop by the exchange of the last hop", func(t *testing.T) { h.lastHop(t, s.topology.Return(), e.RoutingKey) }},
			{"event", h.event},
			{"poison queue without room for headers", h.wrapped},
			{"replay", h.replay},
		} {
			t.Run(hop.name, hop.run)
		}
	})
}

type hops struct {
	*system
	want        schemas.Envelope
	fingerprint string
	queue       string // a service's, whose dead letters go to the retry exchange
}

func (h *hops) declareQueue() {
	ch := h.Channel(h.t)
	args := amqp091.Table{"x-dead-letter-exchange": h.topology.Retry()}
	if _, err := ch.QueueDeclare(h.queue, true, false, false, false, args); err != nil {
		h.t.Fatal(err)
	}
	h.DeleteQueue(h.t, h.queue)
	for _, b := range []struct {
		exchange, key string
		match         amqp091.Table
	}{
		{h.shop, "#", nil},
		{h.topology.Direct(), h.queue, nil},
		{h.topology.Return(), "", wire.ReturnArguments(h.queue)},
	} {
		if err := ch.QueueBind(h.queue, b.key, b.exchange, false, b.match); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *hops) same(t *testing.T, got schemas.Envelope) {
	t.Helper()
	if fp := got.Fingerprint(); fp != h.fingerprint {
		t.Errorf("fingerprint %s, was %s", fp, h.fingerprint)
	}
	if diff := diff(h.want, got); diff != "" {
		t.Errorf("the envelope changed (-want +got):\n%s", diff)
	}
}

// diff compares floats by their bits, times by their seconds, and takes absent for empty.
func diff(want, got schemas.Envelope) string {
	if bytes.Equal(want.Body, got.Body) {
		want.Body, got.Body = nil, nil // cmp takes minutes for the largest
	}
	return cmp.Diff(want, got, cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
		cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
		cmp.Comparer(func(a, b time.Time) bool { return a.Unix() == b.Unix() }))
}

func (h *hops) take(t *testing.T, queue string) amqp091.Delivery {
	t.Helper()
	var taken amqp091.Delivery
	err := h.open(h.URL, true).Consume(patient(t), rabbit.ConsumeConfig{Queue: queue, Prefetch: 1},
		func(_ context.Context, session *rabbit.Session) error {
			taken = rabbittest.Receive(t, session.Deliveries)
			return session.Ack(taken.DeliveryTag, false)
		})
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

// verified is a message that came to the queue by an exchange.
func (h *hops) verified(t *testing.T, arrived schemas.Envelope, by string) wire.VerifiedState {
	t.Helper()
	verifier := wire.Verifier{Topology: h.topology}
	verified, err := verifier.Verify(arrived, by, h.queue)
	if err != nil || verified.Mismatch {
		t.Fatalf("mismatch %v, %v", verified.Mismatch, err)
	}
	h.same(t, verified.Envelope)
	return verified
}

func (h *hops) tapped(t *testing.T, queue string) schemas.Event {
	t.Helper()
	event := h.decoder.Tapped(h.take(t, queue), time.Now(), 1)
	h.same(t, event.Envelope)
	return event
}

func (h *hops) tap(t *testing.T) {
	h.publish(h.want)
	h.tapped(t, h.topology.Index())
	arrived := schemas.FromDelivery(h.take(t, h.queue))
	h.verified(t, arrived, arrived.Exchange)
}

func (h *hops) expiry(t *testing.T) {
	whole := h.want
	defer func() { h.want = whole }()
	h.want.Properties.Expiration = "20"
	h.publish(h.want)
	h.tapped(t, h.topology.IndexLate())
	h.take(t, h.topology.Retry()) // the queue's copy expired as well
}

func (h *hops) deadLetter(t *testing.T) {
	h.publish(h.want)
	h.tapped(t, h.topology.Index())
	h.rejected(t)
}

// rejected returns the message that the retry handler receives after a reject.
func (h *hops) rejected(t *testing.T) wire.VerifiedState {
	t.Helper()
	d, ok, err := h.Channel(t).Get(h.queue, false)
	if err != nil || !ok {
		t.Fatalf("there is nothing to reject: %v", err)
	}
	if err := d.Reject(false); err != nil {
		t.Fatal(err)
	}
	letter, death, dead := wire.DeadLetter(schemas.FromDelivery(h.take(t, h.topology.Retry())), nil)
	if !dead || death.Queue != h.queue || death.Reason != "rejected" {
		t.Fatalf("got death %+v", death)
	}
	return h.verified(t, letter, death.Exchange)
}

func (h *hops) failed() schemas.State {
	return schemas.State{Fingerprint: h.fingerprint, Message: "01J", EventID: "01K"}.Failed(
		time.Now(), time.Second, h.queue, schemas.Failure{Message: "no stock", Stack: strings.Repeat("s", 9000)})
}

func (h *hops) delay(t *testing.T) {
	h.send(rabbit.Message{Exchange: h.topology.Direct(), RoutingKey: wire.DelaysOf(h.topology).Queue(delay), Publishing: wire.DefaultFrameMax.Wrap(h.want, h.failed())})
	h.inQueueOfOurs(t, h.topology.Due(), (*wire.Verifier).VerifyDue)
}

func (h *hops) inQueueOfOurs(t *testing.T, queue string,
	verify func(*wire.Verifier, schemas.Envelope) (wire.VerifiedState, bool, error),
) {
	t.Helper()
	got, found, err := verify(&wire.Verifier{Topology: h.topology}, schemas.FromDelivery(h.take(t, queue)))
	if err != nil || !found || got.Mismatch {
		t.Fatalf("found %v, mismatch %v, %v", found, got.Mismatch, err)
	}
	h.same(t, got.Envelope)
	if got.State.Fingerprint != h.fingerprint || got.State.Attempt != 1 || got.State.Queue != h.queue {
		t.Errorf("the state changed: %+v", got.State)
	}
}

func (h *hops) lastHop(t *testing.T, exchange, key string) {
	message := rabbit.Message{Exchange: exchange, RoutingKey: key, Publishing: wire.DefaultFrameMax.WrapForQueue(h.want, h.failed(), "guest")}
	h.send(message)
	d := h.take(t, h.queue)
	if want := h.want.Properties; schemas.FromDelivery(d).Properties != want {
		t.Errorf("the consumer gets %+v, first published was %+v", schemas.FromDelivery(d).Properties, want)
	}
	if got := h.verified(t, schemas.FromDelivery(d), d.Exchange); got.State.Attempt != 1 {
		t.Errorf("got attempt %d", got.State.Attempt)
	}
	h.send(message)
	if got := h.rejected(t); got.State.Attempt != 1 {
		t.Errorf("got attempt %d after it was rejected again", got.State.Attempt)
	}
}

func (h *hops) event(t *testing.T) {
	h.send(rabbit.Message{Exchange: h.topology.Events(), RoutingKey: "poisoned", Publishing: wire.DefaultFrameMax.Wrap(h.want, h.failed())})
	event, err := h.decoder.Lifecycle(h.take(t, h.topology.Log()), time.Now(), 1)
	if err != nil {
		t.Fatal(err)
	}
	h.same(t, event.Envelope)
}

// wrapped has headers as large as the broker takes from a publisher.
func (h *hops) wrapped(t *testing.T) {
	full := *h
	full.want.Headers = amqp091.Table{"CC": []any{"copy"}, "filler": strings.Repeat("f", 130_700)}
	full.fingerprint = full.want.Fingerprint()
	full.publish(full.want)
	full.tapped(t, h.topology.Index())
	full.rejected(t) // in a frame larger than the broker says
	if wire.DefaultFrameMax.LeavesRoom(full.want) {
		t.Error("the message is to be retried")
	}
	full.send(rabbit.Message{Exchange: h.topology.Direct(), RoutingKey: h.topology.Poison(), Publishing: wire.DefaultFrameMax.Wrap(full.want, full.failed())})
	full.inQueueOfOurs(t, h.topology.Poison(), (*wire.Verifier).VerifyPoison)
	full.send(rabbit.Message{Exchange: h.topology.Direct(), RoutingKey: h.queue, Publishing: wire.DefaultFrameMax.WrapForQueue(full.want, full.failed(), "guest")})
	h.take(t, h.queue)
}

func (h *hops) replay(t *testing.T) {
	state := schemas.State{Fingerprint: h.fingerprint, Replay: "job-1", ReplayOf: "01K"}
	h.send(rabbit.Message{Exchange: h.shop, RoutingKey: h.want.RoutingKey, Publishing: wire.DefaultFrameMax.WrapForExchange(h.want, state, "guest")})
	if event := h.tapped(t, h.topology.Index()); event.Replay != "job-1" || event.ReplayOf != "01K" {
		t.Errorf("the tap's copy is marked %q, %q", event.Replay, event.ReplayOf)
	}
	if got := h.rejected(t); got.State.Replay != "job-1" {
		t.Errorf("the queue's copy is marked %q", got.State.Replay)
	}
}

package transport

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/pipeline/internal/delivery"
)

// settling are the ways in which the messages of a Subscriber are settled.
var settling = map[string]struct {
	options   []Option
	ack, nack func(*message.Message)
}{
	"by its messages": {nil, func(msg *message.Message) { msg.Ack() }, func(msg *message.Message) { msg.Nack() }},
	"by handlers": {
		[]Option{delivery.SettledByHandlers()},
		func(msg *message.Message) {
			delivery.Settle(msg.Context(), true)
			delivery.Settle(msg.Context(), false)
		},
		func(msg *message.Message) {
			delivery.Settle(msg.Context(), false)
			delivery.Settle(msg.Context(), true)
		},
	},
}

// TestSettled: a message is acked or requeued as the first call says, and the function of
// AfterSettled is called once the broker gets the ack, or gets the message back.
func TestSettled(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		for name, way := range settling {
			for _, concurrency := range []int{1, 3} {
				t.Run(name, func(t *testing.T) {
					testSettled(t, b, append(way.options, Concurrency(concurrency)), way.ack, way.nack)
				})
			}
		}
	})
	if delivery.AfterSettled(t.Context(), func() { t.Error("called") }) {
		t.Error("a context without a message has one")
	}
}

func testSettled(t *testing.T, b rabbittest.Broker, options []Option, ack, nack func(*message.Message)) {
	rabbittest.NoLeaks(t)
	queue, proxy := b.Queue(t, nil), b.Proxy(t)
	publish(t, newTestPublisher(t, queueConfig(b)), queue, numbered(3)...)
	cfg := queueConfig(b)
	cfg.Connection.AmqpURI = proxy.URL
	s := newTestSubscriber(t, cfg, append(options, NackBackoff(0, 0))...)
	messages := subscribe(t, s, queue)
	settled := func(end func(*message.Message)) <-chan struct{} {
		msg, called := rabbittest.Receive(t, messages), make(chan struct{})
		if !delivery.AfterSettled(msg.Context(), func() { close(called) }) {
			t.Fatal("a delivered message is not known as one")
		}
		quiet(t, "called before the ack", called)
		end(msg)
		return called
	}
	rabbittest.Ends(t, settled(ack))
	rabbittest.Ends(t, settled(nack))
	rabbittest.Ends(t, settled(func(msg *message.Message) {
		proxy.Cut()
		rabbittest.Ends(t, msg.Context().Done())
		ack(msg) // too late
	}))
	proxy.Mend()
	for range 2 {
		msg, called := rabbittest.Receive(t, messages), make(chan struct{})
		ack(msg)
		if rabbittest.Ends(t, msg.Context().Done()); !delivery.AfterSettled(msg.Context(), func() { close(called) }) {
			t.Error("a message that is acked is not known as one")
		}
		rabbittest.Ends(t, called)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := b.Len(t, queue); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

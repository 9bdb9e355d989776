package transport

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// TestAfterSettled: the function is called once the broker gets the ack, or gets the message back.
func TestAfterSettled(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		for _, concurrency := range []int{1, 3} {
			rabbittest.NoLeaks(t)
			queue, proxy := b.Queue(t, nil), b.Proxy(t)
			publish(t, newTestPublisher(t, queueConfig(b)), queue, numbered(3)...)
			cfg := queueConfig(b)
			cfg.Connection.AmqpURI = proxy.URL
			s := newTestSubscriber(t, cfg, Concurrency(concurrency), NackBackoff(0, 0))
			messages := subscribe(t, s, queue)
			settled := func(end func(*message.Message)) <-chan struct{} {
				msg, called := rabbittest.Receive(t, messages), make(chan struct{})
				if !AfterSettled(msg.Context(), func() { close(called) }) {
					t.Fatal("a delivered message is not known as one")
				}
				quiet(t, "called before the ack", called)
				end(msg)
				return called
			}
			rabbittest.Ends(t, settled(func(msg *message.Message) { msg.Ack() }))
			rabbittest.Ends(t, settled(func(msg *message.Message) { msg.Nack() }))
			rabbittest.Ends(t, settled(func(msg *message.Message) {
				proxy.Cut()
				rabbittest.Ends(t, msg.Context().Done())
				msg.Ack() // too late
			}))
			proxy.Mend()
			for range 2 {
				msg := rabbittest.Receive(t, messages)
				msg.Ack()
				called := make(chan struct{})
				if rabbittest.Ends(t, msg.Context().Done()); !AfterSettled(msg.Context(), func() { close(called) }) {
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
	})
	if AfterSettled(t.Context(), func() { t.Error("called") }) {
		t.Error("a context without a message has one")
	}
}

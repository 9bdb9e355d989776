package transport

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/pipeline/internal/delivery"
)

// consumerFrames follows the frames of a channel with one consumer after the other.
type consumerFrames struct {
	mu        sync.Mutex // guards the fields below
	prefetch  int
	unsettled map[uint64]bool // deliveries of the consumer
	cancelled []int           // of each cancelled consumer, the deliveries that may have been on their way
}

func (c *consumerFrames) up(frame []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch arguments := frame[min(len(frame), 11):]; {
	case rabbittest.IsMethod(frame, 60, 10): // qos
		c.prefetch = int(binary.BigEndian.Uint16(arguments[4:]))
	case rabbittest.IsMethod(frame, 60, 20): // consume
		c.unsettled = map[uint64]bool{}
	case rabbittest.IsMethod(frame, 60, 80): // ack
		tag, multiple := binary.BigEndian.Uint64(arguments), arguments[8]&1 != 0
		for other := range c.unsettled {
			if other == tag || multiple && other < tag {
				delete(c.unsettled, other)
			}
		}
	case rabbittest.IsMethod(frame, 60, 30): // cancel
		c.cancelled = append(c.cancelled, c.prefetch-len(c.unsettled))
	}
	return frame
}

func (c *consumerFrames) down(frame []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if rabbittest.IsMethod(frame, 60, 60) { // deliver
		tag := frame[11:]
		c.unsettled[binary.BigEndian.Uint64(tag[1+int(tag[0]):])] = true
	}
	return frame
}

// A quorum queue requeues a message that is on its way to a cancelled consumer behind others. So if
// the order is kept, a consumer is cancelled only when it has as many messages as it may have.
func TestNoMessageIsOnItsWayToACancelledConsumer(t *testing.T) {
	const messages = 400
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue, frames := b.Queue(t, nil), &consumerFrames{}
		publish(t, newTestPublisher(t, queueConfig(b)), queue, numbered(messages)...)
		b.URL = b.Rewrite(t, frames.down)
		cfg := queueConfig(b)
		cfg.Connection.AmqpURI = b.RewriteSent(t, frames.up)
		s := newTestSubscriber(t, cfg, Concurrency(256), MaxBytes(4*largestMessage), delivery.BeforeRequeue(func(context.Context) {}))
		deliveries := subscribe(t, s, queue)
		for range messages {
			rabbittest.Receive(t, deliveries).Ack()
		}
		frames.mu.Lock()
		defer frames.mu.Unlock()
		if len(frames.cancelled) == 0 {
			t.Error("the prefetch stays")
		}
		for _, n := range frames.cancelled {
			if n != 0 {
				t.Errorf("%d messages may be on their way to a consumer that is cancelled", n)
			}
		}
	})
}

package transport

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// TestEachTagIsAcknowledgedOnce acks and nacks deliveries in random order, and checks
// the acknowledgements against a model of RabbitMQ, which closes the channel for a tag
// that it does not wait for, and with "multiple" counts all earlier tags as acknowledged.
func TestEachTagIsAcknowledgedOnce(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		var u unsettled
		var broker channel
		var delivered uint64
		var inFlight, acked []uint64
		for range 200 {
			switch n := random.IntN(4); {
			case n == 0 && len(inFlight) < 20:
				delivered++
				inFlight = append(inFlight, delivered)
				u.begin(delivered)
				broker.unsettled = append(broker.unsettled, delivered)
			case n == 1 && len(inFlight) > 0: // acked
				acked = append(acked, pick(random, &inFlight))
			case n == 2 && len(inFlight) > 0: // nacked, told before it is settled
				tag := pick(random, &inFlight)
				broker.settle(t, tag, false)
				u.end(tag)
			case n == 3:
				upTo, single := u.collect(acked)
				acked = acked[:0]
				if upTo > 0 {
					broker.settle(t, upTo, true)
				}
				for _, tag := range single {
					broker.settle(t, tag, false)
				}
				if !slices.Equal(broker.unsettled, slices.Sorted(slices.Values(inFlight))) {
					t.Fatalf("seed %d: the broker waits for %d, handlers have %d", seed, broker.unsettled, inFlight)
				}
			}
		}
	}
}

func pick(random *rand.Rand, from *[]uint64) uint64 {
	i := random.IntN(len(*from))
	tag := (*from)[i]
	*from = slices.Delete(*from, i, i+1)
	return tag
}

// channel is a model of the unacknowledged deliveries of a channel in the broker.
type channel struct{ unsettled []uint64 }

func (c *channel) settle(t *testing.T, tag uint64, multiple bool) {
	i, ok := slices.BinarySearch(c.unsettled, tag)
	if !ok {
		t.Fatalf("PRECONDITION_FAILED - unknown delivery tag %d", tag)
	}
	if multiple {
		c.unsettled = c.unsettled[i+1:]
		return
	}
	c.unsettled = slices.Delete(c.unsettled, i, i+1)
}

// TestUnfinishedMessageHoldsBackNoAck: the broker hears of acks while an older message
// is still being handled, and after one in between came back.
func TestUnfinishedMessageHoldsBackNoAck(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		rabbittest.NoLeaks(t)
		queue := b.Queue(t, nil)
		cfg := queueConfig(b)
		publish(t, newTestPublisher(t, cfg), queue, numbered(100)...)
		s := newTestSubscriber(t, cfg, Concurrency(100), NackBackoff(0, 0))
		messages := subscribe(t, s, queue)
		held := map[string]*message.Message{}
		for range 100 {
			msg := rabbittest.Receive(t, messages)
			held[string(msg.Payload)] = msg
		}
		held["50"].Nack()
		again := rabbittest.Receive(t, messages)
		if string(again.Payload) != "50" {
			t.Fatalf("got %q again", again.Payload)
		}
		for number, msg := range held {
			if number != "0" && number != "50" {
				msg.Ack()
			}
		}
		again.Ack()
		publish(t, newTestPublisher(t, cfg), queue, numbered(99)...)
		for range 99 { // as many as the broker delivers in addition to the first
			rabbittest.Receive(t, messages).Ack()
		}
		held["0"].Ack()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if n := b.Len(t, queue); n != 0 {
			t.Errorf("%d messages are left", n)
		}
	})
}

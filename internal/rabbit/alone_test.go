package rabbit

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// Channels of two connections, two of each, never work at the same time. A login without the right to keep the
// others away does not wait for ever.
func TestDoAlone(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		b.DeleteQueue(t, queue+aloneSuffix)
		var working, most, done atomic.Int32
		var all sync.WaitGroup
		for range 2 {
			conn := open(t, b.URL, nil)
			for range 2 {
				all.Go(func() {
					for range 5 {
						err := DoAlone(t.Context(), conn, queue, func(ch *amqp.Channel) error {
							if working.Add(1) > 1 {
								most.Store(2)
							}
							defer working.Add(-1)
							done.Add(1)
							return ch.ExchangeDeclarePassive("amq.topic", "topic", true, false, false, false, nil) // takes some time
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		if most.Load() > 1 || done.Load() != 20 {
			t.Errorf("%d worked, some at the same time: %v", done.Load(), most.Load() > 1)
		}
		reader := open(t, b.VHost(t).Login(t, rabbittest.Rights{Read: ".*"}).URL, nil)
		if err := DoAlone(t.Context(), reader, queue, func(*amqp.Channel) error { return nil }); err != nil {
			t.Error(err)
		}
	})
}

// The lock is a classic queue. While it is away with its node, the work is done without it.
func TestDoAloneWithoutTheNodeOfItsLock(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		queue := rabbittest.Name(t)
		b.DeleteQueue(t, queue+aloneSuffix)
		if _, err := b.Channel(t).QueueDeclare(queue+aloneSuffix, true, false, false, false, nil); err != nil { // which differs
			t.Fatal(err)
		}
		conn := open(t, b.Rewrite(t, func(frame []byte) []byte {
			if !rabbittest.IsMethod(frame, 20, 40) {
				return frame
			}
			const down = "NOT_FOUND - home node 'rabbit@two' of durable queue 'q' in vhost '/' is down or inaccessible"
			arguments := append([]byte{0, 20, 0, 40, amqp.NotFound >> 8, amqp.NotFound & 0xff, byte(len(down))}, down...)
			arguments = append(arguments, 0, 50, 0, 10)
			closed := binary.BigEndian.AppendUint32(frame[:3:3], uint32(len(arguments)))
			return append(append(closed, arguments...), 0xCE)
		}), nil)
		done := false
		err := DoAlone(t.Context(), conn, queue, func(*amqp.Channel) error { done = true; return nil })
		if err != nil || !done {
			t.Error(done, err)
		}
	})
}

package bodies

import (
	"bytes"
	"sync"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// Several readers look for the same bodies at the same time: each finds all of them, although RabbitMQ shows
// a message to no other reader while one has it.
func TestReadersOfUnstorableMessages(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		queue := b.Queue(t, map[string]any{"x-queue-type": "quorum"})
		b.DeleteQueue(t, queue+".reader")
		var events []schemas.Event
		for n := range 20 {
			e := schemas.Envelope{Exchange: "shop", RoutingKey: "order", Body: bytes.Repeat([]byte{byte(n)}, 1000)}
			b.Publish(t, queue, schemas.DefaultFrameMax.Wrap(e, schemas.State{Fingerprint: e.Fingerprint()}))
			event := schemas.Event{State: schemas.State{Fingerprint: e.Fingerprint()}, Envelope: e, BodyIn: schemas.BodyInUnstorable}
			event.Envelope.Body = nil
			events = append(events, event)
		}
		var readers sync.WaitGroup
		for range 2 {
			conn, err := rabbit.Open(rabbit.Config{URL: b.URL, Name: t.Name(), LargeFrames: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			for range 2 {
				readers.Go(func() {
					for range 3 {
						missing := NewMissing(schemas.Fingerprints{})
						for _, event := range events {
							missing.Add(&event)
						}
						if err := missing.FindUnstorable(t.Context(), conn, queue); err != nil || missing.Len() > 0 {
							t.Errorf("%d bodies are missing: %v", missing.Len(), err)
						}
					}
				})
			}
		}
		readers.Wait()
	})
}

// Without the queue, no message is in it.
func TestNoQueueOfUnstorableMessages(t *testing.T) {
	b := rabbittest.Either(t)
	conn, err := rabbit.Open(rabbit.Config{URL: b.URL, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	missing := NewMissing(schemas.Fingerprints{})
	missing.Add(&schemas.Event{State: schemas.State{Fingerprint: "f"}})
	if err := missing.FindUnstorable(t.Context(), conn, rabbittest.Name(t)); err != nil || missing.Len() != 1 {
		t.Errorf("%d, %v", missing.Len(), err)
	}
}

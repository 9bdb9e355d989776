package bodies

import (
	"bytes"
	"context"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/schemas"
)

type storedEvents []schemas.Event

func (s storedEvents) Events(context.Context, eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		for _, e := range s {
			if !yield(e, nil) {
				return
			}
		}
	}
}

// One event of a message was redacted without its original, a later one has it.
func TestOriginalOfALaterEvent(t *testing.T) {
	key := strings.Repeat("0a", 32)
	hashKeys, _ := privacy.ParseHashKeys([]byte(key))
	originals, err := privacy.ParseKeys([]byte("a " + key))
	if err != nil {
		t.Fatal(err)
	}
	cfg := privacy.Config{Rules: []privacy.Rule{{Pattern: "mail"}}, HashKeys: hashKeys}
	forgets, err := privacy.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Originals = originals
	keeps, err := privacy.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e := schemas.Envelope{Exchange: "shop", RoutingKey: "order", Body: []byte("of ana@example.com")}
	event := schemas.Event{State: schemas.State{Fingerprint: e.Fingerprint()}, Envelope: e}
	bodiless := event
	bodiless.Envelope.Body, bodiless.BodyIn = nil, schemas.BodyInPublished
	for opener, want := range map[privacy.Opener]string{keeps: string(e.Body), forgets: string(forgets.Event(event).Envelope.Body)} {
		missing, found := NewMissing(schemas.Fingerprints{}), bodiless
		missing.Opener = opener
		missing.Add(t.Context(), &found)
		err := missing.FindStored(t.Context(), storedEvents{forgets.Event(event), keeps.Event(event)})
		if err != nil || missing.Len() > 0 || string(found.Envelope.Body) != want || found.Envelope.Redacted == (opener == keeps) {
			t.Errorf("%d are missing, %v, %q, want %q", missing.Len(), err, found.Envelope.Body, want)
		}
	}
}

// One copy of an unstorable message was sealed by a key that is gone, a later one opens.
func TestUnstorableOriginalOfALaterCopy(t *testing.T) {
	b := rabbittest.Embedded(t)
	conn, err := rabbit.Open(rabbit.Config{URL: b.URL, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	hashKeys, _ := privacy.ParseHashKeys([]byte(strings.Repeat("0a", 32)))
	by := func(keys string) *privacy.Redactor {
		originals, err := privacy.ParseKeys([]byte(keys))
		if err != nil {
			t.Fatal(err)
		}
		r, err := privacy.New(privacy.Config{Rules: []privacy.Rule{{Pattern: "mail"}}, HashKeys: hashKeys, Originals: originals})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	gone, keeps := by("b "+strings.Repeat("0b", 32)), by("a "+strings.Repeat("0a", 32))
	e := schemas.Envelope{Exchange: "shop", RoutingKey: "order", Body: []byte("of ana@example.com")}
	event := schemas.Event{State: schemas.State{Fingerprint: e.Fingerprint(), EventID: "1"}, Envelope: e}
	redacted := gone.Event(event)
	redacted.Sealed = nil
	for name, test := range map[string]struct {
		copies []schemas.Event
		opens  bool
	}{
		"a later one opens": {[]schemas.Event{gone.Event(event), redacted, keeps.Event(event)}, true},
		"none opens":        {[]schemas.Event{gone.Event(event), redacted}, false},
	} {
		queue := b.Queue(t, nil)
		for _, copied := range test.copies {
			b.Publish(t, queue, wire.WrapKept(copied, schemas.Failures, time.Now()))
		}
		missing, found := NewMissing(schemas.Fingerprints{}), event
		found.Envelope.Body, found.BodyIn, missing.Opener = nil, schemas.BodyInUnstorable, keeps
		missing.Add(t.Context(), &found)
		err := missing.FindUnstorable(t.Context(), conn, queue)
		if err != nil || missing.Len() > 0 || found.Envelope.Redacted == test.opens || test.opens && string(found.Envelope.Body) != string(e.Body) || !test.opens && len(found.Sealed) == 0 {
			t.Errorf("%s: %d are missing, %v, %q, redacted: %v", name, missing.Len(), err, found.Envelope.Body, found.Envelope.Redacted)
		}
	}
}

// Several readers look for the same bodies at the same time: each finds all of them, although RabbitMQ shows
// a message to no other reader while one has it.
func TestReadersOfUnstorableMessages(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		queue := b.Queue(t, map[string]any{"x-queue-type": "quorum"})
		b.DeleteQueue(t, queue+".reader")
		var events []schemas.Event
		for n := range 20 {
			e := schemas.Envelope{Exchange: "shop", RoutingKey: "order", Body: bytes.Repeat([]byte{byte(n)}, 1000)}
			b.Publish(t, queue, wire.DefaultFrameMax.Wrap(e, schemas.State{Fingerprint: e.Fingerprint()}))
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
							missing.Add(t.Context(), &event)
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
	missing.Add(t.Context(), &schemas.Event{State: schemas.State{Fingerprint: "f"}})
	if err := missing.FindUnstorable(t.Context(), conn, rabbittest.Name(t)); err != nil || missing.Len() != 1 {
		t.Errorf("%d, %v", missing.Len(), err)
	}
}

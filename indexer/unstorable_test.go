package indexer

import (
	"slices"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// A message that was too large for the store expires with its document. One without a
// document stays.
func TestUnstorableMessagesExpireWithTheirDocuments(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		s, store, now := newSystem(t, b), newStore(t, b), time.Now()
		cfg := s.config(store)
		cfg.Broker, cfg.Retention = rabbit.Consumer{Connection: s.open(s.URL, true)}, map[schemas.Stream]time.Duration{schemas.Traffic: 24 * time.Hour}
		indexer, queue := New(cfg), s.topology.Unstorable()
		keepIn := func(stream schemas.Stream, name string, action schemas.Action, age time.Duration) schemas.Event {
			e := s.message(name, 1)
			event := schemas.Event{Action: action, Sequence: now.UnixMicro(), Envelope: e, Source: s.decoder.Source}
			event.EventID, event.Fingerprint, event.Time = name, e.Fingerprint(), now
			s.send(rabbit.Message{RoutingKey: queue, Publishing: wire.WrapKept(event, stream, now.Add(-age))})
			return event
		}
		keep := func(name string, action schemas.Action, age time.Duration) schemas.Event {
			return keepIn(action.Stream(), name, action, age)
		}
		keep("expired", schemas.Published, 25*time.Hour)
		fault := s.message("fault", 1)
		s.send(rabbit.Message{RoutingKey: queue, Publishing: wire.DefaultFrameMax.Wrap(fault, schemas.State{EventID: "fault"})})
		stored := keep("stored", schemas.Published, 25*time.Hour)
		stored.BodyIn = schemas.BodyInUnstorable
		if results, err := store.Create(patient(t), []schemas.Document{schemas.DocumentFormat{}.Document(stored)}); err != nil || results[0].Status != eventstore.Created {
			t.Fatalf("%+v, %v", results, err)
		}
		keep("forever", schemas.Poisoned, 1000*time.Hour)
		keep("expired, too", schemas.Handled, 25*time.Hour)
		keepIn(schemas.Traffic.For(time.Hour), "expired by a former rule", schemas.Published, 2*time.Hour)
		keep("young", schemas.Published, 23*time.Hour)
		keep("after a young one", schemas.Published, 25*time.Hour)
		for round, want := range []int{3, 0} {
			if removed, err := (expiry{indexer.cfg}).remove(patient(t)); removed != want || err != nil {
				t.Errorf("round %d removed %d, %v", round, removed, err)
			}
			rabbittest.Eventually(t, "the others are back", func() bool { return s.Len(t, queue) == 5 })
		}
		var left []string
		for _, d := range s.Take(t, queue, 5) {
			left = append(left, d.MessageId)
		}
		if want := []string{"fault-1", "stored-1", "forever-1", "young-1", "after a young one-1"}; !slices.Equal(left, want) {
			t.Errorf("left are %q, want %q", left, want)
		}
	})
}

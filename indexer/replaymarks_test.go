package indexer

import (
	"fmt"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// A replay mark counts if the store has its job, both in tapped messages and in events of
// handlers. A message with another mark is new, since every publisher can write a mark.
func TestForgedReplayMarks(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		s := newSystem(t, b)
		store := newStore(t, b)
		if _, err := store.CreateJob(patient(t), "job", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if err := store.SaveHandover(patient(t), "log", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		run := s.start(store, nil)
		events := 0
		for round := range 2 { // the second time the job is known
			for n, job := range []string{"job", "another", "handover:log", "../odd/id?x=1 "} {
				e := s.message(job, 10*round+n)
				e.Properties.Timestamp = time.Unix(1e9, 0)
				state := schemas.State{Fingerprint: e.Fingerprint(), Replay: job, ReplayOf: "of another", EventID: e.Properties.MessageID, Time: time.Now()}
				marked := wire.DefaultFrameMax.WrapForExchange(e, state, "")
				marked.Timestamp = time.Time{} // the mark says when the message was first published
				s.send(rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: marked})
				s.send(rabbit.Message{Exchange: s.topology.Events(), RoutingKey: "handled", Publishing: wire.DefaultFrameMax.Wrap(e, state)})
			}
			events += 8
			s.wait(store, events)
		}
		for _, e := range s.finish(store, events, run) {
			job, of, id := "", "", e.EventID
			if e.Envelope.Properties.MessageID == "job-0" || e.Envelope.Properties.MessageID == "job-10" {
				job, of = "job", "of another"
			}
			if e.Action == schemas.Published {
				if id = fmt.Sprintf("%s:%s", e.Source, e.Fingerprint); job != "" {
					id += ":" + job
				}
			}
			if e.Replay != job || e.ReplayOf != of || e.EventID != id {
				t.Errorf("%s %s says replay %q of %q, with the id %s", e.Action, e.Envelope.Properties.MessageID, e.Replay, e.ReplayOf, e.EventID)
			}
			if job == "" && e.Action == schemas.Published && !e.Envelope.Properties.Timestamp.IsZero() {
				t.Errorf("%s was published at %s, says its mark", e.Envelope.Properties.MessageID, e.Envelope.Properties.Timestamp)
			}
		}
	})
}

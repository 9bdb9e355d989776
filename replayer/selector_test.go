package replayer

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// testEvent describes an event: its action, its message (a letter with its own id, or
// "-" and its content), and its instance or queue.
type testEvent struct {
	id      string
	action  schemas.Action
	message string // id of the message
	content string // fingerprint
	changed func(*schemas.Event)
}

func (s testEvent) event() schemas.Event {
	e := schemas.Event{Action: s.action}
	e.EventID, e.Fingerprint, e.Envelope.Properties.MessageID = s.id, s.content, s.message
	if s.changed != nil {
		s.changed(&e)
	}
	return e
}

func instance(name string) func(*schemas.Event) {
	return func(e *schemas.Event) { e.Message, e.Queue = name, "orders" }
}

func at(queue string) func(*schemas.Event) { return func(e *schemas.Event) { e.Queue = queue } }

func copyOf(event string) func(*schemas.Event) {
	return func(e *schemas.Event) { e.Replay, e.ReplayOf = "job", event }
}

// candidatesOf returns the candidates of a store that has no other events.
func candidatesOf(t *testing.T, target Target, all []testEvent) []candidate {
	t.Helper()
	page := make([]candidate, len(all))
	for i, s := range all {
		page[i] = candidate{event: s.event(), summary: eventstore.Summarize(s.event())}
	}
	if err := identify(t.Context(), emptyStore{}, target, page); err != nil {
		t.Fatal(err)
	}
	return page
}

type emptyStore struct{ Store }

func (emptyStore) Summaries(context.Context, eventstore.Selection, ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	return func(func(eventstore.EventSummary, error) bool) {}
}

func TestSelector(t *testing.T) {
	const published, poisoned, retried = schemas.Published, schemas.Poisoned, schemas.RetryScheduled
	failed, origin := Target{Kind: ToFailedQueue}, Target{Kind: ToOrigin}
	for name, test := range map[string]struct {
		target Target
		events []testEvent
		want   string // ids of the events that are sent
	}{
		"a message with an id is sent once": {origin, []testEvent{
			{"1", published, "a", "x", nil}, {"2", retried, "a", "x", instance("i")}, {"3", poisoned, "a", "x", instance("i")},
		}, "1"},
		"an id that is used again for another content is another message": {origin, []testEvent{
			{"1", published, "a", "x", nil}, {"2", published, "a", "y", nil},
		}, "1 2"},
		"a message that failed at two queues goes to each": {failed, []testEvent{
			{"1", poisoned, "a", "x", at("orders")}, {"2", poisoned, "a", "x", at("stock")}, {"3", poisoned, "a", "x", at("orders")},
		}, "1 2"},
		"and once to its exchange": {origin, []testEvent{
			{"1", poisoned, "a", "x", at("orders")}, {"2", poisoned, "a", "x", at("stock")},
		}, "1"},
		"without an id each publishing is a message": {origin, []testEvent{
			{"1", published, "", "x", nil}, {"2", published, "", "x", nil},
		}, "1 2"},
		"without an id each instance is a message": {failed, []testEvent{
			{"1", retried, "", "x", instance("i")}, {"2", poisoned, "", "x", instance("i")}, {"3", poisoned, "", "x", instance("j")},
		}, "1 3"},
		"without an id a failure is left out where its content is sent as published, also later": {origin, []testEvent{
			{"1", poisoned, "", "x", instance("i")}, {"2", published, "", "x", nil}, {"3", poisoned, "", "y", instance("j")},
		}, "2 3"},
		"but not to the queue that failed": {failed, []testEvent{
			{"1", published, "", "x", nil}, {"2", poisoned, "", "x", instance("i")},
		}, "2"},
		"the copy of an earlier job is the same message": {origin, []testEvent{
			{"1", published, "", "x", nil}, {"2", published, "", "x", copyOf("1")}, {"3", published, "", "x", copyOf("1")},
		}, "1"},
		"without an id, what failed again is the same message": {failed, []testEvent{
			{"1", poisoned, "", "x", instance("i")}, {"2", poisoned, "", "x", func(e *schemas.Event) {
				e.Message, e.Queue, e.Replay, e.ReplayOf = "j", "orders", "job", "1"
			}},
		}, "1"},
		"a changed copy is the same message, also of one that is gone": {origin, []testEvent{
			{"1", published, "a", "x", nil},
			{"2", published, "a", "y", copyOf("1")},
			{"3", schemas.Handled, "a", "y", copyOf("1")},
			{"4", published, "", "z", copyOf("gone")},
			{"5", schemas.Replayed, "", "w", copyOf("gone")},
		}, "1 4"},
		"a replay of itself is that message": {origin, []testEvent{{"1", published, "a", "x", copyOf("1")}}, "1"},
		"an event without a queue did not fail at one": {failed, []testEvent{
			{"1", published, "a", "x", nil},
		}, ""},
		"nor did a queue that handled a message, or to which a job sent it": {failed, []testEvent{
			{"1", schemas.Handled, "a", "x", at("mail")},
			{"2", schemas.Replayed, "a", "x", at("repair")},
			{"3", schemas.Quarantined, "a", "x", func(e *schemas.Event) { e.Queue, e.QuarantinedAction = "mail", schemas.Handled }},
			{"4", retried, "a", "x", at("orders")},
			{"5", schemas.Handled, "a", "x", at("orders")},
			{"6", schemas.Discarded, "b", "y", at("orders")},
		}, "4 6"},
		"a body that is elsewhere is fetched from there": {origin, []testEvent{
			{"1", published, "a", "x", func(e *schemas.Event) { e.BodyIn = schemas.BodyInUnstorable }},
		}, "1"},
		"a quarantined copy is a message, a quarantined log entry is none": {origin, []testEvent{
			{"1", schemas.Quarantined, "a", "x", func(e *schemas.Event) { e.QuarantinedAction = published }},
			{"2", schemas.Quarantined, "b", "y", func(e *schemas.Event) { e.Envelope.Exchange = "watership.events" }},
		}, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			choice := newSelector(test.target, schemas.Topology{}.Owns, schemas.Fingerprints{}.Folds)
			var sent []string
			for _, s := range test.events {
				choice.notePublished(s.event())
			}
			for _, f := range candidatesOf(t, test.target, test.events) {
				if choice.selectMessage(&f, "") == "" {
					sent = append(sent, f.summary.EventID)
				}
			}
			if got := strings.Join(sent, " "); got != test.want {
				t.Errorf("sent %q, want %q", got, test.want)
			}
		})
	}
}

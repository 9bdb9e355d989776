package history

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// event is the nth event, with the sequence n.
func event(n int, action schemas.Action, change ...func(*schemas.Event)) schemas.Event {
	e := schemas.Event{Action: action, Sequence: int64(n), Source: "test", VHost: "/"}
	e.EventID, e.Time = fmt.Sprint("test:", n), time.Date(2026, 5, 4, 3, 0, n, 0, time.UTC)
	e.Envelope = schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Properties: schemas.Properties{MessageID: fmt.Sprint("m-", n)}}
	for _, f := range change {
		f(&e)
	}
	if e.Fingerprint == "" {
		e.Fingerprint = e.Envelope.Fingerprint()
	}
	return e
}

// sameMessage is about message n.
func sameMessage(n int) func(*schemas.Event) {
	return func(e *schemas.Event) {
		e.Envelope.Properties.MessageID = fmt.Sprint("m-", n)
		e.Envelope.Headers, e.Envelope.Body = amqp.Table{"n": int64(n)}, fmt.Appendf(nil, `{"order":%d}`, n)
	}
}

func anonymous(e *schemas.Event) { e.Envelope.Properties.MessageID = "" }

func quarantined(e *schemas.Event) { *e = e.Quarantine("too many fields") }

func at(queue string) func(*schemas.Event) { return func(e *schemas.Event) { e.Queue = queue } }

func instance(id string) func(*schemas.Event) { return func(e *schemas.Event) { e.Message = id } }

// replayOf is about a copy of event n that a job sent.
func replayOf(n int) func(*schemas.Event) {
	return func(e *schemas.Event) { e.Replay, e.ReplayOf = "job", fmt.Sprint("test:", n) }
}

// Each case is the life of one message that was given up at queue orders as event 3. Consumers of
// orders report, those of foreign do not.
func TestWhatResolvesAFailure(t *testing.T) {
	for name, test := range map[string]struct {
		events []schemas.Event
		open   string // sequences of the failures that are left
	}{
		"nothing happened":                            {nil, "3"},
		"handled later, the same instance":            {[]schemas.Event{event(5, schemas.Handled, sameMessage(3), at("orders"), instance("i-3"))}, ""},
		"handled before":                              {[]schemas.Event{event(2, schemas.Handled, sameMessage(3), at("orders"), instance("i-3"))}, "3"},
		"handled at another queue":                    {[]schemas.Event{event(5, schemas.Handled, sameMessage(3), at("mails"), instance("i-3"))}, "3"},
		"handled, but another instance and no replay": {[]schemas.Event{event(5, schemas.Handled, sameMessage(3), at("orders"), instance("i-9"))}, "3"},
		"replayed, not handled yet":                   {[]schemas.Event{event(4, schemas.Replayed, sameMessage(3), at("orders"), replayOf(3))}, "3"},
		"a replay of it handled":                      {[]schemas.Event{event(5, schemas.Handled, sameMessage(3), at("orders"), replayOf(3))}, ""},
		"a replay of its published event handled": {[]schemas.Event{
			event(1, schemas.Published, sameMessage(3)),
			event(5, schemas.Handled, sameMessage(3), at("orders"), replayOf(1)),
		}, ""},
		"a replay of its retry, with other headers, handled": {[]schemas.Event{
			event(2, schemas.RetryScheduled, sameMessage(3), at("orders"), instance("i-3")),
			event(4, schemas.Replayed, sameMessage(3), at("orders"), instance("i-3"), replayOf(2)),
			event(5, schemas.Handled, sameMessage(3), at("orders"), replayOf(2), func(e *schemas.Event) { e.Envelope.Headers["fixed"] = true }),
		}, ""},
		"a replay of its retry handled, of a message without an id": {[]schemas.Event{
			event(4, schemas.RetryScheduled, sameMessage(4), anonymous, at("orders"), instance("i-4")),
			event(5, schemas.Poisoned, sameMessage(4), anonymous, at("orders"), instance("i-4")),
			event(6, schemas.Replayed, sameMessage(4), anonymous, at("orders"), instance("i-4"), replayOf(4)),
			event(7, schemas.Handled, sameMessage(4), anonymous, at("orders"), replayOf(4)),
		}, "3"},
		"a replay of it handled at another queue": {[]schemas.Event{event(5, schemas.Handled, sameMessage(3), at("mails"), replayOf(3))}, "3"},
		"a replay of it given up again":           {[]schemas.Event{event(5, schemas.Poisoned, sameMessage(3), at("orders"), instance("i-5"), replayOf(3))}, "5"},
		"given up again, then handled": {[]schemas.Event{
			event(5, schemas.Poisoned, sameMessage(3), at("orders"), instance("i-5"), replayOf(3)),
			event(7, schemas.Handled, sameMessage(3), at("orders"), replayOf(5)),
		}, ""},
		"given up again and again without an id, then handled": {[]schemas.Event{
			event(4, schemas.Poisoned, sameMessage(4), anonymous, at("orders"), instance("i-4")),
			event(6, schemas.Poisoned, sameMessage(4), anonymous, at("orders"), instance("i-6"), replayOf(4)),
			event(8, schemas.Poisoned, sameMessage(4), anonymous, at("orders"), instance("i-8"), replayOf(6)),
			event(10, schemas.Handled, sameMessage(4), anonymous, at("orders"), instance("i-10"), replayOf(8)),
			event(11, schemas.Poisoned, sameMessage(4), anonymous, at("orders"), instance("i-11")),
		}, "3 11"},
		"discarded": {[]schemas.Event{event(5, schemas.Discarded, sameMessage(3), at("orders"), func(e *schemas.Event) { e.ReplayOf = "test:3" })}, ""},
		"given up again, which the store refused to record": {[]schemas.Event{event(5, schemas.Poisoned, sameMessage(3), at("orders"), instance("i-5"), replayOf(3), quarantined)}, "5"},
		"discarded, which the store refused to record":      {[]schemas.Event{event(5, schemas.Discarded, sameMessage(3), at("orders"), func(e *schemas.Event) { e.ReplayOf = "test:3" }, quarantined)}, ""},
		"an equal message without an id handled": {[]schemas.Event{
			event(4, schemas.Poisoned, sameMessage(4), anonymous, at("orders"), instance("i-4")),
			event(5, schemas.Poisoned, sameMessage(4), anonymous, at("orders"), instance("i-5")),
			event(6, schemas.Handled, sameMessage(4), anonymous, at("orders"), replayOf(4)),
		}, "3 5"},
		"a foreign queue's failure, replayed": {[]schemas.Event{
			event(4, schemas.Poisoned, sameMessage(4), at("foreign"), instance("i-4")),
			event(5, schemas.Replayed, sameMessage(4), at("foreign"), replayOf(4)),
		}, "3"},
		"a foreign queue's failure, replayed to where it came from": {[]schemas.Event{
			event(4, schemas.Poisoned, sameMessage(4), at("foreign"), instance("i-4")),
			event(5, schemas.Handled, sameMessage(4), at("mail")),
			event(6, schemas.Replayed, sameMessage(4), at(""), replayOf(5)),
		}, "3"},
		"a foreign queue's failure, replayed to another": {[]schemas.Event{
			event(4, schemas.Poisoned, sameMessage(4), at("foreign"), instance("i-4")),
			event(5, schemas.Replayed, sameMessage(4), at("other"), replayOf(4)),
		}, "3 4"},
		"a foreign queue's failure, failed again": {[]schemas.Event{
			event(4, schemas.Poisoned, sameMessage(4), at("foreign"), instance("i-4")),
			event(5, schemas.Replayed, sameMessage(4), at("foreign"), replayOf(4)),
			event(6, schemas.Poisoned, sameMessage(4), at("foreign"), instance("i-6")),
		}, "3 6"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := filledStore(t, append(test.events,
				event(3, schemas.Poisoned, sameMessage(3), at("orders"), instance("i-3")),
				event(100, schemas.Handled, at("orders")))) // so that orders reports
			failures, err := NewFailures(t.Context(), store, nil)
			if err != nil {
				t.Fatal(err)
			}
			var open []int64
			for fact, err := range failures.Open(t.Context(), kql.All{}) {
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, fact.Sequence)
			}
			if got := strings.Trim(fmt.Sprint(open), "[]"); got != test.open {
				t.Errorf("open are %q, want %q", got, test.open)
			}
		})
	}
}

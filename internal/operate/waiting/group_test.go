package waiting

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// at is the time at which the messages of a test are listed.
func at() time.Time { return time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC) }

// waits is the event of a message that waits for its second attempt until a time after at.
func waits(id, queue, class string, due time.Duration) schemas.Event {
	e := schemas.Event{Action: schemas.RetryScheduled, Envelope: schemas.Envelope{
		Exchange: "shop", RoutingKey: "k", Properties: schemas.Properties{MessageID: id}, Body: []byte(id),
	}}
	e.EventID, e.Message, e.Queue, e.Attempt = "event-"+id, "instance-"+id, queue, 1
	e.Time, e.Delay, e.Failure = at().Add(-time.Hour), time.Hour+due, schemas.Failure{Message: "no stock", Class: class}
	return e
}

// then is a later event of the same message.
func then(e schemas.Event, action schemas.Action, delay time.Duration) schemas.Event {
	e.EventID, e.Action, e.Time, e.Delay = e.EventID+"-"+string(action), action, at().Add(-time.Minute), time.Minute+delay
	if action == schemas.Handled {
		e.Failure = schemas.Failure{}
	}
	return e
}

func newStore(t *testing.T, events ...schemas.Event) system.EventStore {
	t.Helper()
	sys, _ := systemtest.Embedded(t)
	systemtest.Record(t, sys, events...)
	store, err := sys.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// listed returns the ids of the messages that wait.
func listed(t *testing.T, store system.EventStore, query kql.Node) (ids []string) {
	t.Helper()
	for m, err := range List(t.Context(), store, nil, query, at()) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, m.MessageID)
	}
	return ids
}

func TestWhichMessagesWait(t *testing.T) {
	a := waits("a", "orders", "stock", time.Hour)
	for name, test := range map[string]struct {
		events []schemas.Event
		want   bool
	}{
		"until later":              {[]schemas.Event{a}, true},
		"until now":                {[]schemas.Event{waits("a", "orders", "stock", 0)}, false},
		"handled since":            {[]schemas.Event{a, then(a, schemas.Handled, 0)}, false},
		"given up since":           {[]schemas.Event{a, then(a, schemas.Poisoned, 0)}, false},
		"cancelled since":          {[]schemas.Event{a, then(a, schemas.Discarded, 0)}, false},
		"postponed since":          {[]schemas.Event{a, then(a, schemas.Rescheduled, 2*time.Hour)}, true},
		"postponed until now":      {[]schemas.Event{a, then(a, schemas.Rescheduled, 0)}, false},
		"failed again since":       {[]schemas.Event{waits("a", "orders", "stock", 0), then(a, schemas.RetryScheduled, time.Hour)}, true},
		"published, with no delay": {[]schemas.Event{then(a, schemas.Published, 0)}, false},
	} {
		if got := listed(t, newStore(t, test.events...), nil); slices.Equal(got, []string{"a"}) != test.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestAPostponedMessageSaysSo(t *testing.T) {
	a := waits("a", "orders", "stock", time.Hour)
	store := newStore(t, a, waits("b", "orders", "stock", time.Hour), then(a, schemas.Rescheduled, 2*time.Hour))
	for m, err := range List(t.Context(), store, nil, nil, at()) {
		if err != nil || m.Postponed != (m.MessageID == "a") {
			t.Errorf("%+v, %v", m, err)
		}
		if want := at().Add(time.Hour); m.MessageID == "b" && !m.Due.Equal(want) {
			t.Errorf("%s is due at %s, want %s", m.MessageID, m.Due, want)
		}
	}
}

func TestMessagesOfAQuery(t *testing.T) {
	store := newStore(t, waits("a", "orders", "stock", time.Hour), waits("b", "mail", "stock", time.Hour))
	if got := listed(t, store, kql.FieldIs("watership.queue", "mail")); !slices.Equal(got, []string{"b"}) {
		t.Errorf("%q", got)
	}
}

func TestMoreMessagesThanOneRequestReads(t *testing.T) {
	var events []schemas.Event
	for n := range chunkSize + 3 {
		events = append(events, waits(fmt.Sprint(n), "orders", "stock", time.Hour))
	}
	if got := listed(t, newStore(t, events...), nil); len(got) != chunkSize+3 {
		t.Errorf("%d messages", len(got))
	}
}

func TestGroupsCountEqualErrorsOfAQueue(t *testing.T) {
	store := newStore(t, waits("a", "orders", "stock", 2*time.Hour), waits("b", "orders", "stock", time.Hour), waits("c", "orders", "", time.Hour), waits("d", "mail", "stock", time.Hour))
	groups, err := Groups(t.Context(), store, nil, nil, at())
	if err != nil || len(groups) != 3 {
		t.Fatalf("%d groups, %v", len(groups), err)
	}
	g := groups[0]
	if g.Count != 2 || g.Queue != "orders" || g.Class != "stock" || g.Example != "b" || !g.First.Equal(at().Add(time.Hour)) || !g.Last.Equal(at().Add(2*time.Hour)) {
		t.Errorf("%+v", g)
	}
}

// The oldest message is the one whose first attempt failed first, not the one whose latest did.
func TestGroupsHaveTheirOldestMessage(t *testing.T) {
	began := at().Add(-24 * time.Hour)
	patient := then(waits("a", "orders", "stock", time.Hour), schemas.Rescheduled, time.Hour)
	patient.FirstFailed = began
	store := newStore(t, waits("b", "orders", "stock", time.Hour), patient, waits("c", "mail", "stock", time.Hour))
	groups, err := Groups(t.Context(), store, nil, nil, at())
	if err != nil || len(groups) != 2 {
		t.Fatalf("%d groups, %v", len(groups), err)
	}
	if !groups[0].Oldest.Equal(began) || !groups[1].Oldest.Equal(at().Add(-time.Hour)) {
		t.Errorf("the oldest began at %s and %s", groups[0].Oldest, groups[1].Oldest)
	}
}

func TestTheQueryOfAGroupFindsItsMessages(t *testing.T) {
	store := newStore(t, waits("a", "orders", "stock", time.Hour), waits("b", "orders", "", time.Hour), waits("c", "mail", "stock", time.Hour))
	groups, err := Groups(t.Context(), store, nil, nil, at())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		if got := listed(t, store, g.Events()); !slices.Equal(got, []string{g.Example}) {
			t.Errorf("%s finds %q, want %s", g.Query, got, g.Example)
		}
	}
}

func TestSelectByEachID(t *testing.T) {
	a := waits("a", "orders", "stock", time.Hour)
	store := newStore(t, a, waits("b", "orders", "stock", time.Hour))
	for _, id := range []string{"a", "instance-a", "event-a", a.Envelope.Fingerprint()} {
		messages, unknown, err := Select(t.Context(), store, nil, nil, []string{id}, at())
		if err != nil || len(messages) != 1 || messages[0].MessageID != "a" || len(unknown) > 0 {
			t.Errorf("%s: %+v, %q, %v", id, messages, unknown, err)
		}
	}
}

func TestSelectNamesUnknownIDs(t *testing.T) {
	store := newStore(t, waits("a", "orders", "stock", time.Hour))
	messages, unknown, err := Select(t.Context(), store, nil, nil, []string{"nobody", "a", "none"}, at())
	if err != nil || len(messages) != 1 || !slices.Equal(unknown, []string{"nobody", "none"}) {
		t.Errorf("%+v, %q, %v", messages, unknown, err)
	}
}

func TestSelectBeginsWithTheNextDue(t *testing.T) {
	store := newStore(t, waits("a", "orders", "stock", 3*time.Hour), waits("b", "orders", "stock", time.Hour), waits("c", "orders", "stock", 2*time.Hour))
	messages, _, err := Select(t.Context(), store, nil, nil, nil, at())
	var ids []string
	for _, m := range messages {
		ids = append(ids, m.MessageID)
	}
	if err != nil || !slices.Equal(ids, []string{"b", "c", "a"}) {
		t.Errorf("%q, %v", ids, err)
	}
}

package storetest

import (
	"context"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// Replacements is a store that replaces quarantined documents. See the methods of
// *elastic.Store.
type Replacements interface {
	Store
	Replace(context.Context, []eventstore.Replacement) ([]eventstore.Result, error)
}

// RunReplacements runs the suite of quarantined documents and their replacements. open
// returns an empty store, as for Run.
func RunReplacements(t *testing.T, open func(t *testing.T) Replacements) {
	store := open(t)
	for name, run := range map[string]func(*testing.T, quarantine){
		"found by the action":       testQuarantinedByAction,
		"replaced once":             testReplacedOnce,
		"refused again":             testRefusedAgain,
		"another reason":            testAnotherReason,
		"the id of another event":   testReplacementConflict,
		"replaced under another id": testReplacedUnderAnotherID,
		"not in quarantine":         testReplacingMissing,
		"several, of both streams":  testReplacingSeveral,
		"an old document":           testReplacingOldDocument,
		"an unknown stream":         testReplacingInvalid,
		"nothing":                   testReplacingNothing,
		"a context that is done":    testReplacingCanceled,
	} {
		t.Run(name, func(t *testing.T) { run(t, quarantine{store, subject{store, t.Name()}}) })
	}
}

type quarantine struct {
	store Replacements
	subject
}

// poisoned is event n, which failed.
func (q quarantine) poisoned(n int) schemas.Event {
	e := q.event(n)
	e.Action, e.Queue = schemas.Poisoned, "orders"
	e.Failure = schemas.Failure{Message: "no stock of item 42", Type: "http.Status", Class: "server"}
	return e
}

// refuse stores events as if the store had refused them.
func (q quarantine) refuse(t *testing.T, events ...schemas.Event) {
	t.Helper()
	list := make([]schemas.Event, len(events))
	for i, e := range events {
		list[i] = e.Quarantine("too many fields")
	}
	q.createVisible(t, list...)
}

// replace checks the statuses, in order, and refreshes.
func (q quarantine) replace(t *testing.T, list []eventstore.Replacement, want ...eventstore.Status) []eventstore.Result {
	t.Helper()
	results, err := q.store.Replace(t.Context(), list)
	if err != nil {
		t.Fatalf("replacing %d documents: %v", len(list), err)
	}
	if len(results) != len(want) {
		t.Fatalf("%d results for %d documents", len(results), len(list))
	}
	for i, result := range results {
		if result.Status != want[i] {
			t.Errorf("document %d of %d: got %+v, want status %d", i+1, len(list), result, want[i])
		}
	}
	q.refresh(t)
	return results
}

// by returns the replacements of events by themselves.
func by(events ...schemas.Event) []eventstore.Replacement {
	var list []eventstore.Replacement
	for i, doc := range documents(events...) {
		list = append(list, eventstore.Replacement{Quarantined: events[i].EventID, Document: doc})
	}
	return list
}

// wantEvents wants a query to find events, each in one document.
func (q quarantine) wantEvents(t *testing.T, query, want string) {
	t.Helper()
	sel := q.selectOwn(t, query)
	sel.Order = eventstore.BySequence
	events := q.read(t, sel)
	if got := eventNumbers(events); got != want {
		t.Errorf("%s: got %q, want %q", query, got, want)
	}
	if n := q.count(t, sel); n != int64(len(events)) {
		t.Errorf("%s: %d documents of %d events", query, n, len(events))
	}
}

const inQuarantine = "watership.quarantined_action: *"

func testQuarantinedByAction(t *testing.T, q quarantine) {
	q.refuse(t, q.event(1), q.poisoned(2))
	q.createVisible(t, q.event(3), q.poisoned(4))
	q.wantEvents(t, "event.action: poisoned", "2 4")
	q.wantEvents(t, "event.action: published", "1 3")
	q.wantEvents(t, inQuarantine, "1 2")
	q.wantEvents(t, "event.action: poisoned and not "+inQuarantine, "4")
	q.wantEvents(t, "event.action: quarantined", "")
}

func testReplacedOnce(t *testing.T, q quarantine) {
	for n, event := range map[string]schemas.Event{"1": q.event(1), "2": q.poisoned(2)} {
		only := "event.sequence: " + n
		q.refuse(t, event)
		q.wantEvents(t, only+" and headers.tenant: acme", "")
		for range 2 {
			q.replace(t, by(event), eventstore.Created)
			q.wantEvents(t, only+" and "+inQuarantine, "")
			q.wantEvents(t, only, n)
			q.wantEvents(t, only+" and headers.tenant: acme and body.json.order: "+n, n)
		}
		got := q.read(t, q.selectOwn(t, only))
		if len(got) == 1 && (got[0].EventID != event.EventID || got[0].Action != event.Action || got[0].Failure != event.Failure) {
			t.Errorf("got %+v, want %+v", got[0], event)
		}
	}
}

func testRefusedAgain(t *testing.T, q quarantine) {
	event := q.poisoned(1)
	q.refuse(t, event)
	invalid := q.raw("", `{"@timestamp":"yesterday","watership":{"version":1}}`)
	invalid.ID, invalid.Stream = event.EventID, schemas.Failures
	refused := q.replace(t, []eventstore.Replacement{{Quarantined: event.EventID, Document: invalid}}, eventstore.Refused)
	if refused[0].Reason == "" {
		t.Error("it is refused without a reason")
	}
	q.wantEvents(t, inQuarantine, "1")
	q.wantEvents(t, `error.message: "too many fields"`, "1")
}

func testAnotherReason(t *testing.T, q quarantine) {
	event := q.poisoned(1)
	q.refuse(t, event)
	q.replace(t, by(event.Quarantine("too deep")), eventstore.Created)
	q.wantEvents(t, "", "1")
	q.wantEvents(t, inQuarantine+` and error.message: "too deep"`, "1")
	q.replace(t, by(event), eventstore.Created)
	q.wantEvents(t, inQuarantine, "")
	q.wantEvents(t, `error.message: "no stock"`, "1")
}

func testReplacementConflict(t *testing.T, q quarantine) {
	first, second := q.event(1), q.event(2)
	q.refuse(t, first)
	q.createVisible(t, second)
	taken := first
	taken.EventID = second.EventID
	doc := documents(taken)[0]
	q.replace(t, []eventstore.Replacement{{Quarantined: first.EventID, Document: doc}}, eventstore.Conflict)
	q.wantEvents(t, inQuarantine, "1")
	q.wantEvents(t, "not "+inQuarantine, "2")
}

func testReplacedUnderAnotherID(t *testing.T, q quarantine) {
	event := q.event(1)
	q.refuse(t, event)
	list := []eventstore.Replacement{{Quarantined: event.EventID, Document: documents(event.WithUniqueID())[0]}}
	for range 2 {
		q.replace(t, list, eventstore.Created)
		q.wantEvents(t, inQuarantine, "")
		q.wantEvents(t, "", "1")
	}
}

func testReplacingMissing(t *testing.T, q quarantine) {
	q.createVisible(t, q.event(1))
	changed := q.event(1)
	changed.Envelope.RoutingKey = "changed"
	q.replace(t, by(q.event(2), changed), eventstore.Refused, eventstore.Created)
	q.wantEvents(t, "", "1")
	q.wantEvents(t, "routing_key: changed", "")
}

func testReplacingSeveral(t *testing.T, q quarantine) {
	q.refuse(t, q.event(1), q.poisoned(2), q.event(3), q.poisoned(4), q.event(5))
	q.replace(t, by(q.event(1), q.poisoned(2), q.event(3), q.poisoned(4)),
		eventstore.Created, eventstore.Created, eventstore.Created, eventstore.Created)
	q.wantEvents(t, inQuarantine, "5")
	q.wantEvents(t, "headers.tenant: acme", "1 2 3 4")
}

// testReplacingOldDocument has a document whose action is quarantined.
func testReplacingOldDocument(t *testing.T, q quarantine) {
	event := q.poisoned(1)
	old := q.raw("", `{"@timestamp":"2026-05-04T03:02:01Z","event":{"action":"quarantined","sequence":1},"watership":{"version":1,"quarantined_action":"poisoned"}}`)
	old.ID, old.Stream = event.EventID, schemas.Failures
	q.create(t, []schemas.Document{old}, eventstore.Created)
	q.replace(t, by(event), eventstore.Created)
	q.wantEvents(t, "event.action: poisoned", "1")
}

func testReplacingInvalid(t *testing.T, q quarantine) {
	event := q.event(1)
	q.refuse(t, event)
	list := by(event)
	list[0].Document.Stream = "elsewhere"
	q.replace(t, list, eventstore.Refused)
	q.wantEvents(t, inQuarantine, "1")
}

func testReplacingNothing(t *testing.T, q quarantine) { q.replace(t, nil) }

func testReplacingCanceled(t *testing.T, q quarantine) {
	event := q.event(1)
	q.refuse(t, event)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantCanceled(t, map[string]func() error{
		"Replace": func() error { _, err := q.store.Replace(ctx, by(event)); return err },
	})
	q.wantEvents(t, inQuarantine, "1")
}

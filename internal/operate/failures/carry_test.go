package failures

import (
	"fmt"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// A decision about a group that a former version made holds for the failures that arrive now, if
// there were such failures in the group when it was made. Others that the group would have taken in
// are not concerned.
func TestDecisionsAboutFormerGroups(t *testing.T) {
	store, now, sequence := systemtest.Store(t), time.Now().Truncate(time.Millisecond).UTC(), int64(0)
	put := func(e schemas.Event) {
		t.Helper()
		sequence++
		e.Sequence, e.Source, e.Queue, e.Time = sequence, "shop", "orders", now
		if e.EventID == "" {
			e.EventID = fmt.Sprint("e-", sequence)
		}
		if _, err := store.Create(t.Context(), []schemas.Document{schemas.DocumentFormat{}.Document(e)}); err != nil {
			t.Fatal(err)
		}
	}
	answered := func(text string) schemas.Failure {
		return schemas.Failure{Class: "default", Message: "http://erp:80 answered 400 Bad Request: {\n  \"error\": \"" + text + "\"\n}"}
	}
	formerly := func(text string) {
		failure := answered(text)
		failure.Group = failure.FormerErrorGroup("orders")
		put(schemas.Event{Action: schemas.Poisoned, State: schemas.State{Failure: failure}})
	}
	kindNow := func(text string) history.Kind {
		return history.Kind{Queue: "orders", Class: "default", Group: answered(text).ErrorGroup("orders")}
	}
	former := history.Kind{Queue: "orders", Class: "default", Group: answered("").FormerErrorGroup("orders")}
	decide := func(of history.Kind, c Change) {
		put(schemas.Event{Action: schemas.Triaged, State: c.Event(of, "ada", now)})
	}
	read := func() States {
		t.Helper()
		states, err := Read(t.Context(), store, kql.All{}, now)
		if err != nil {
			t.Fatal(err)
		}
		return states
	}
	formerly("unknown currency")
	formerly("customer is blocked")
	decide(former, Change{Decision: Assigned, Assignee: "bob"})
	decide(former, Change{Decision: Muted, Until: now.Add(time.Hour), Reason: "the supplier is closed"})
	formerly("stock is empty") // after the decisions
	states := read()
	for _, text := range []string{"unknown currency", "customer is blocked"} {
		if s := states.Of(kindNow(text)); s.Assignee != "bob" || s.Muted == nil || s.Muted.Reason != "the supplier is closed" {
			t.Errorf("%s: %+v", text, s)
		}
	}
	for _, text := range []string{"payment lost", "stock is empty"} {
		if s := states.Of(kindNow(text)); s.Assignee != "" || s.Muted != nil {
			t.Errorf("%s: %+v", text, s)
		}
	}
	if !states.IsMuted(former) {
		t.Error("the former group is not muted")
	}
	decide(kindNow("unknown currency"), Change{Decision: Unmuted})
	if states = read(); states.IsMuted(kindNow("unknown currency")) || !states.IsMuted(kindNow("customer is blocked")) || !states.IsMuted(former) {
		t.Error("unmuting a group unmutes the wrong ones")
	}
	decide(former, Change{Decision: Resolved, Reason: "fixed", UpTo: 2})
	states = read()
	if up := states.Resolutions()[kindNow("unknown currency")]; up != 2 || states.IsMuted(kindNow("customer is blocked")) {
		t.Errorf("resolved up to %d", up)
	}
}

package quarantine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// faulty is a store whose answers to Replace a test can change.
type faulty struct {
	*sqlite.Store
	fault func(list []eventstore.Replacement) ([]eventstore.Result, error) // nil results: no fault
	calls int
}

func (f *faulty) Replace(ctx context.Context, list []eventstore.Replacement) ([]eventstore.Result, error) {
	f.calls++
	if f.fault != nil {
		if results, err := f.fault(list); results != nil || err != nil {
			return results, err
		}
	}
	return f.Store.Replace(ctx, list)
}

// published is event n of equal messages.
func published(n int) schemas.Event {
	e := schemas.Envelope{Exchange: "shop", RoutingKey: "k", Properties: schemas.Properties{MessageID: "m-1"}, Body: []byte(`{"order":1}`)}
	event := schemas.Event{Action: schemas.Published, Sequence: int64(n), Source: "test", Envelope: e, BodySize: len(e.Body)}
	event.Fingerprint, event.Time = e.Fingerprint(), time.Date(2026, 5, 4, 3, 0, n, 0, time.UTC)
	event.EventID = fmt.Sprint("test:", n)
	return event
}

// quarantined is a store with some events, all in quarantine.
func quarantined(t *testing.T, events int) *faulty {
	t.Helper()
	store := systemtest.Store(t)
	var docs []schemas.Document
	for n := range events {
		docs = append(docs, schemas.DocumentFormat{}.Document(published(n+1).Quarantine("too many fields")))
	}
	if _, err := store.Create(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	return &faulty{Store: store}
}

// run rewrites everything, and wants these numbers of events afterwards.
func (f *faulty) run(t *testing.T, written, refused, left int) *Rewrite {
	t.Helper()
	r := &Rewrite{Finder: Finder{Store: f, Owns: schemas.Topology{}.Owns}}
	if err := r.Run(t.Context(), kql.All{}); err != nil {
		t.Fatal(err)
	}
	n, err := f.Count(t.Context(), eventstore.Selection{Query: Query(kql.All{})})
	if r.Written != written || r.Refused != refused || int(n) != left || err != nil {
		t.Errorf("%d are written, %d refused and %d in quarantine (%v), want %d, %d and %d", r.Written, r.Refused, n, err, written, refused, left)
	}
	return r
}

func TestRewriteInBatches(t *testing.T) {
	f := quarantined(t, batchEvents+3)
	f.run(t, batchEvents+3, 0, 0)
	if f.calls != 2 {
		t.Errorf("%d requests, want 2", f.calls)
	}
	f.run(t, 0, 0, 0)
}

// A request that is too large for the store is split, down to the event that is.
func TestRewriteSplitsRequests(t *testing.T) {
	f := quarantined(t, 7)
	f.fault = func(list []eventstore.Replacement) ([]eventstore.Result, error) {
		for _, r := range list {
			if r.Quarantined == "test:5" && r.Document.Stream == schemas.Traffic {
				return nil, &eventstore.Error{Kind: eventstore.RequestTooLarge, Reason: "413"}
			}
		}
		return nil, nil
	}
	r := f.run(t, 6, 1, 1)
	if len(r.Reasons) != 1 || r.Reasons[0] != (Refusal{"test:5", "413"}) {
		t.Errorf("refused: %+v", r.Reasons)
	}
	for e, err := range f.Events(t.Context(), eventstore.Selection{Query: Query(kql.All{})}) {
		if err != nil || e.Failure.Message != "413" || e.QuarantinedAction != schemas.Published {
			t.Errorf("left is %+v, %v", e, err)
		}
	}
	f.calls = 0
	f.run(t, 0, 1, 1)
	if f.calls != 1 {
		t.Errorf("%d requests for the same reason again, want 1", f.calls)
	}
	f.fault = nil
	f.run(t, 1, 0, 0)
}

// What the store is too busy for is sent again.
func TestRewriteWaitsForABusyStore(t *testing.T) {
	f := quarantined(t, 2)
	f.fault = func(list []eventstore.Replacement) ([]eventstore.Result, error) {
		switch f.calls {
		case 1:
			return nil, &eventstore.Error{Kind: eventstore.Unavailable, Reason: "no answer"}
		case 2:
			return slices.Repeat([]eventstore.Result{{Status: eventstore.Busy, Reason: "queue is full"}}, len(list)), nil
		}
		return nil, nil
	}
	f.run(t, 2, 0, 0)
	if f.calls != 3 {
		t.Errorf("%d requests, want 3", f.calls)
	}
}

// An equal message with the id of the event was stored meanwhile, in the other stream of
// Elasticsearch: the event gets an id of its own.
func TestRewriteBesideAnEqualMessage(t *testing.T) {
	f := quarantined(t, 1)
	f.fault = func(list []eventstore.Replacement) ([]eventstore.Result, error) {
		if list[0].Document.ID == "test:1" {
			return []eventstore.Result{{Status: eventstore.Conflict, Index: "traffic"}}, nil
		}
		return nil, nil
	}
	f.run(t, 1, 0, 0)
	for e, err := range f.Events(t.Context(), eventstore.Selection{}) {
		if err != nil || e.EventID != "test:1:1" || e.Action != schemas.Published {
			t.Errorf("got %s %s, %v", e.EventID, e.Action, err)
		}
	}
}

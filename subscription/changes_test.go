package subscription_test

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/subscription"
)

// countingStore counts how often subscriptions are looked for, and how often all are listed.
type countingStore struct {
	*sqlite.Store
	looks, lists atomic.Int64
}

func (s *countingStore) Record(ctx context.Context, kind, id string) ([]byte, string, error) {
	if kind == "subscriptions" {
		s.looks.Add(1)
	}
	return s.Store.Record(ctx, kind, id)
}

func (s *countingStore) Records(ctx context.Context, kind string) iter.Seq2[[]byte, error] {
	if kind == "subscription" {
		s.lists.Add(1)
	}
	return s.Store.Records(ctx, kind)
}

// To list records makes Elasticsearch refresh their index, which changes all the time.
func TestServeListsSubscriptionsAfterChangesOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, rabbittest.Embedded(t))
	store, operator := &countingStore{Store: r.store}, subscription.New(r.cfg)
	r.cfg.Store = store
	s := subscription.New(r.cfg)
	r.serve(t, s)
	rabbittest.Eventually(t, "the first look", func() bool { return store.looks.Load() > 0 })
	changes := []struct {
		change func() error
		runs   bool
	}{
		{func() error {
			r.create(t, operator, subscription.Subscription{Name: "a", Target: subscription.Target{Kind: subscription.ToQueue, Queue: "a"}})
			return nil
		}, true},
		{func() error { _, err := operator.Pause(t.Context(), "a", "test", ""); return err }, false},
		{func() error { _, err := operator.Resume(t.Context(), "a", "test"); return err }, true},
		{func() error { return operator.Delete(t.Context(), "a") }, false},
	}
	for i, step := range changes {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		rabbittest.Eventually(t, fmt.Sprint("an effect of change ", i), func() bool { return len(s.Running()) > 0 == step.runs })
	}
	effect := store.looks.Load() // the subscription may have ended by what it saved itself, before the look
	rabbittest.Eventually(t, "looks after the last change", func() bool { return store.looks.Load() > effect+1 })
	looks, lists := store.looks.Load(), store.lists.Load()
	if most := int64(2*len(changes) + 1); lists > most { // a change may come between the look and the list
		t.Errorf("%d changes made it list %d times", len(changes), lists)
	}
	rabbittest.Eventually(t, "more looks", func() bool { return store.looks.Load() > looks+1 })
	if more := store.lists.Load() - lists; more > 0 {
		t.Errorf("it has listed %d times without a change", more)
	}
}

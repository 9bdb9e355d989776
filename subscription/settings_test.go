package subscription_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/subscription"
)

// A subscription gets other settings, and goes on after its position.
func TestConfigure(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	s := subscription.New(r.cfg)
	sub := toHandler("orders")
	sub.Query = "routing_key: key-0"
	r.create(t, s, sub)
	var got positions
	r.run(t, s, "orders", func(_ context.Context, d subscription.Delivery) error {
		got.add(d.Position.Sequence)
		if d.Position.Sequence == 8 {
			return retry.Permanent(errors.New("poison"))
		}
		return nil
	})
	storeEvents(t, r.store, source, numbers(1, 4)...)
	rabbittest.Eventually(t, "the events of the first query", func() bool { return slices.Equal(got.list(), []int64{2, 4}) })
	rabbittest.Eventually(t, "the checkpoint is saved", func() bool { return get(t, s, "orders").Checkpoint.CaughtUp })

	if _, err := s.Pause(t.Context(), "orders", "ada", "other settings"); err != nil {
		t.Fatal(err)
	}
	rabbittest.Eventually(t, "nothing runs", func() bool { return len(s.Running()) == 0 })
	query, three := "", subscription.Attempts(3)
	changed, err := s.Configure(t.Context(), "orders", "ada", subscription.Settings{Query: &query, OnPoison: subscription.Stop, Policy: &three})
	if err != nil || changed.ChangedBy != "ada" || changed.OnPoison != subscription.Stop || changed.Policy.MaxAttempts() != 3 || changed.Checkpoint.CaughtUp {
		t.Errorf("%+v, %v", changed, err)
	}
	if _, err := s.Resume(t.Context(), "orders", "ada"); err != nil {
		t.Fatal(err)
	}
	storeEvents(t, r.store, source, numbers(5, 9)...)
	rabbittest.Eventually(t, "it stops before the poison message", func() bool { return get(t, s, "orders").State == subscription.Stopped })
	if want := []int64{2, 4, 5, 6, 7, 8}; !slices.Equal(got.list(), want) {
		t.Errorf("got %v, want %v", got.list(), want)
	}

	backlog, many, wrong := 5, subscription.Attempts(10_000_000), "a: ("
	for name, settings := range map[string]subscription.Settings{
		"backlog": {MaxBacklog: &backlog}, "policy": {Policy: &many}, "query": {Query: &wrong}, "on poison": {OnPoison: "wait"},
	} {
		var mistake *subscription.Error
		if _, err := s.Configure(t.Context(), "orders", "ada", settings); !errors.As(err, &mistake) {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.create(t, s, toQueue("others", "q"))
	if changed, err := s.Configure(t.Context(), "others", "ada", subscription.Settings{MaxBacklog: &backlog}); err != nil || changed.Target.MaxBacklog != 5 {
		t.Errorf("%+v, %v", changed, err)
	}
	if _, err := s.Configure(t.Context(), "others", "ada", subscription.Settings{Policy: &three}); err == nil {
		t.Error("a queue has attempts")
	}
}

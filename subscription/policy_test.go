package subscription_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/subscription"
)

// A policy decides as in a route: by the class of the error, and an unavailable service costs no attempt.
func TestPolicyOfASubscription(t *testing.T) {
	r := newRig(t, rabbittest.Either(t))
	storeEvents(t, r.store, source, numbers(1, 3)...)
	s := subscription.New(r.cfg)
	sub := toHandler("orders")
	sub.Policy = &retry.Policy{
		Delays:  []time.Duration{time.Millisecond},
		Classes: map[string]retry.Policy{"payment": {Delays: []time.Duration{time.Millisecond, time.Millisecond}}},
	}
	r.create(t, s, sub)
	var attempts [4][]int
	r.run(t, s, "orders", func(ctx context.Context, d subscription.Delivery) error {
		n := d.Position.Sequence
		attempts[n] = append(attempts[n], retry.AttemptFrom(ctx).Number)
		switch {
		case n == 1:
			return retry.Class("payment", errors.New("not paid"))
		case n == 2 && len(attempts[n]) == 1:
			return retry.Unavailable(errors.New("no connection"))
		case n == 2:
			return errors.New("out of stock")
		}
		return nil
	})
	rabbittest.Eventually(t, "the last is handled", func() bool { return get(t, s, "orders").Checkpoint.Delivered == 1 })
	if !slices.Equal(attempts[1], []int{1, 2, 3}) || !slices.Equal(attempts[2], []int{1, 1, 2}) {
		t.Errorf("attempts %v", attempts)
	}
	list, err := s.Parked(t.Context(), "orders")
	if err != nil || len(list) != 2 || list[0].Cause != subscription.AttemptsExhausted || list[1].Cause != subscription.AttemptsExhausted {
		t.Errorf("parked %+v, %v", list, err)
	}
}

// The limit of attempts of a record of an earlier version stays.
func TestFormerLimits(t *testing.T) {
	for document, want := range map[string]*retry.Policy{
		`{"retry":{}}`:                                                          nil,
		`{"retry":{"delays":[1000000000]}}`:                                     nil,
		`{"retry":{"attempts":8}}`:                                              new(subscription.Attempts(8)),
		`{"retry":{"attempts":3,"delays":[1000000000]}}`:                        {Delays: []time.Duration{time.Second, time.Second}},
		`{"retry":{"attempts":9999,"delays":[1000000000]}}`:                     new(subscription.Attempts(9999)),
		`{"retry":{"attempts":8},"policy":{"delays":[1000000000]},"name":"of"}`: {Delays: []time.Duration{time.Second}},
	} {
		var sub subscription.Subscription
		if err := json.Unmarshal([]byte(document), &sub); err != nil {
			t.Errorf("%s: %v", document, err)
		}
		if diff := cmp.Diff(want, sub.Policy, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", document, diff)
		}
	}
}

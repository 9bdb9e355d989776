package subscription

import (
	"cmp"
	"context"
	"reflect"

	"github.com/watershipmq/watership/retry"
)

// Settings are new settings of a subscription. Those that are nil or empty stay as they are.
type Settings struct {
	Query      *string // as Create takes it
	Upcast     *string // the program of Subscription.Upcast; "" for none
	OnPoison   OnPoison
	MaxBacklog *int // as Target has it; for a queue

	// Policy is as Subscription has it, for a URL or a handler. The zero value repeats calls until they succeed.
	Policy *retry.Policy

	By          *By  // "" also takes back Concurrency
	Concurrency *int // as Subscription has it
}

// Configure changes the settings of a subscription. Its state, position and parked messages stay: a new
// query finds the events after the position. Its error is an *Error for a mistake.
func (s *Subscriptions) Configure(ctx context.Context, name, by string, to Settings) (Subscription, error) {
	if to.Query != nil {
		node, err := s.resolve(*to.Query)
		if err != nil {
			return Subscription{}, err
		}
		text := node.String()
		to.Query = &text
	}
	sub, err := s.Get(ctx, name)
	if err != nil {
		return sub, err
	}
	switch isQueue := sub.Target.Kind == ToQueue; {
	case to.MaxBacklog != nil && !isQueue:
		return sub, mistakef("subscription %s delivers to %s, which has no backlog", name, sub.Target)
	case to.Policy != nil && isQueue:
		return sub, mistakef("subscription %s delivers to %s, for which attempts do not count", name, sub.Target)
	}
	to.apply(&sub)
	if err := sub.check(s.cfg.Topology.Owns); err != nil {
		return sub, err
	}
	return s.change(ctx, name, by, to.apply)
}

func (to Settings) apply(sub *Subscription) {
	sub.OnPoison = cmp.Or(to.OnPoison, sub.OnPoison)
	if to.Query != nil {
		sub.Query, sub.Checkpoint.CaughtUp = *to.Query, false
	}
	if to.Upcast != nil && *to.Upcast != sub.Upcast.Program {
		sub.Upcast = Upcast{*to.Upcast, sub.Upcast.Version + 1}
	}
	if to.MaxBacklog != nil {
		sub.Target.MaxBacklog = *to.MaxBacklog
	}
	if to.Policy != nil {
		if sub.Policy = to.Policy; reflect.ValueOf(*to.Policy).IsZero() {
			sub.Policy = nil
		}
	}
	if to.By != nil {
		if sub.By = *to.By; sub.By == "" {
			sub.Concurrency = 0
		}
	}
	if to.Concurrency != nil {
		sub.Concurrency = *to.Concurrency
	}
}

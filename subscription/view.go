package subscription

import (
	"slices"
	"strings"
	"sync"
)

// runnerView is the latest state of a subscription that this process runs.
type runnerView struct {
	mu      sync.Mutex // guards the fields below
	sub     Subscription
	running bool
}

func (v *runnerView) set(sub Subscription, running bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.sub, v.running = sub, running
}

// viewOf returns the view of a subscription.
func (s *Subscriptions) viewOf(name string) *runnerView {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[name] == nil {
		s.running[name] = &runnerView{}
	}
	return s.running[name]
}

// Running returns the subscriptions that this process runs, with their latest checkpoints,
// which may not be saved yet.
func (s *Subscriptions) Running() []Subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Subscription
	for _, view := range s.running {
		view.mu.Lock()
		if view.running {
			list = append(list, view.sub)
		}
		view.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b Subscription) int { return strings.Compare(a.Name, b.Name) })
	return list
}

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

// runnerViews are the views of the subscriptions that this process runs.
type runnerViews struct {
	mu      sync.Mutex             // guards running
	running map[string]*runnerView // by name
}

// viewOf returns the view of a subscription.
func (v *runnerViews) viewOf(name string) *runnerView {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.running[name] == nil {
		v.running[name] = &runnerView{}
	}
	return v.running[name]
}

// Running returns the subscriptions that this process runs, with their latest checkpoints,
// which may not be saved yet.
func (v *runnerViews) Running() []Subscription {
	v.mu.Lock()
	defer v.mu.Unlock()
	var list []Subscription
	for _, view := range v.running {
		view.mu.Lock()
		if view.running {
			list = append(list, view.sub)
		}
		view.mu.Unlock()
	}
	slices.SortFunc(list, func(a, b Subscription) int { return strings.Compare(a.Name, b.Name) })
	return list
}

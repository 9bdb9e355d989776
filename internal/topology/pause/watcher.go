package pause

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// Switch reports whether an operator has paused a route. A nil Switch says that none has.
type Switch struct {
	mu      sync.Mutex // guards the fields below
	known   bool       // RabbitMQ has answered
	paused  bool
	changed chan struct{} // closed when paused changes
}

// State returns whether the route is paused, and a channel that is closed when that
// changes.
func (s *Switch) State() (paused bool, changed <-chan struct{}) {
	if s == nil {
		return false, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paused, s.changed
}

// set sets the state that RabbitMQ has answered, and reports whether it is another one.
func (s *Switch) set(paused bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = true
	return s.turn(paused)
}

// suspect pauses a route about which RabbitMQ has never answered.
func (s *Switch) suspect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		s.turn(true)
	}
}

func (s *Switch) turn(paused bool) bool {
	if s.paused == paused {
		return false
	}
	s.paused = paused
	close(s.changed)
	s.changed = make(chan struct{})
	return true
}

// Watcher asks RabbitMQ regularly which routes are paused.
type Watcher struct {
	Topology  schemas.Topology
	Publisher Publisher
	Logger    *slog.Logger

	// Wake has a value when keys of a route are unknown. Nil: the watcher asks about them at its next check.
	Wake <-chan struct{}

	mu       sync.Mutex         // guards the fields below
	switches map[string]*Switch // by queue
	keys     map[string]Keys    // by queue
	checking chan struct{}      // has an element during a check

	problem string // that was logged; belongs to the check that runs
}

// Every is how often a Watcher asks.
const Every = 2 * time.Second

// askTimeout bounds the wait for an answer. The state of a route stays as it was until then.
const askTimeout = 10 * time.Second

// Switch returns the switch of a queue's route, which the watcher keeps up to date.
func (w *Watcher) Switch(queue string) *Switch {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, known := w.switches[queue]
	if !known {
		s = &Switch{changed: make(chan struct{})}
		if w.switches == nil {
			w.switches = map[string]*Switch{}
		}
		w.switches[queue] = s
	}
	return s
}

// Forget ends the questions about the route of a queue.
func (w *Watcher) Forget(queue string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.switches, queue)
	delete(w.keys, queue)
}

// Watch asks until ctx ends.
func (w *Watcher) Watch(ctx context.Context) {
	next := time.NewTicker(Every)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			w.Check(ctx)
		case <-w.Wake:
			w.check(ctx, false)
		}
	}
}

// Check asks once about each route. A route about which RabbitMQ does not answer stays as
// it is, and is paused before the first answer: a message that is neither returned nor
// confirmed was routed to a queue that has lost its nodes. A login that may not ask handles
// its routes.
func (w *Watcher) Check(ctx context.Context) { w.check(ctx, true) }

// check asks about routes and all of their keys, or only about keys that are unknown.
func (w *Watcher) check(ctx context.Context, all bool) {
	turn := w.turn()
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-turn }()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var problem error
	if all {
		problem = w.checkRoutes(ctx)
	}
	w.mu.Lock()
	keys := maps.Clone(w.keys)
	w.mu.Unlock()
	for queue, of := range keys {
		problem = cmp.Or(problem, w.checkKeys(ctx, queue, of, all))
	}
	if problem == nil {
		w.problem = ""
	} else if ctx.Err() == nil && problem.Error() != w.problem {
		w.problem = problem.Error()
		w.Logger.Error("it is not known which routes are paused by hand; trying again", "error", problem)
	}
}

// checkRoutes asks about each route.
func (w *Watcher) checkRoutes(ctx context.Context) error {
	var asking sync.WaitGroup
	w.mu.Lock()
	switches := maps.Clone(w.switches)
	w.mu.Unlock()
	all, unknown := Paused(ctx, w.Publisher, w.Topology, All)
	queues := slices.Sorted(maps.Keys(switches))
	problems := make([]error, len(queues))
	for i, queue := range queues {
		asking.Go(func() {
			paused, err := all, unknown
			if err == nil && !all {
				paused, err = Paused(ctx, w.Publisher, w.Topology, queue)
			}
			problems[i] = w.set(switches[queue], queue, paused, err)
		})
	}
	asking.Wait()
	return cmp.Or(problems...)
}

// turn returns a channel to which a check sends before it begins, and from which it receives at its end.
func (w *Watcher) turn() chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.checking == nil {
		w.checking = make(chan struct{}, 1)
	}
	return w.checking
}

// set sets a switch to the answer of RabbitMQ, and returns the error of the question.
func (w *Watcher) set(of *Switch, queue string, paused bool, err error) error {
	var refused *rabbit.RefusedError
	if err != nil && !errors.As(err, &refused) {
		of.suspect()
	}
	if err != nil || !of.set(paused) {
		return err
	}
	if paused {
		w.Logger.Warn("route paused by an operator", "queue", queue)
	} else {
		w.Logger.Info("route resumed by an operator", "queue", queue)
	}
	return nil
}

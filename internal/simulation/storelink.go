package simulation

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/backoff"
)

// storeFault is a fault of the store that a process meets for a time.
type storeFault int

const (
	refusesRequests storeFault = iota + 1 // it carries out nothing
	losesAnswers                          // it carries out the request, and does not say so
	answersLate
	isOverloaded    // it carries out some requests, and answers 429 to others
	isBusy          // it stores some documents of a request, and not the others
	blocksWrites    // it only reads
	carriesOutLater // it does not answer a write, and carries it out later
)

// storeLink carries the requests of one process to the store. The requests of a process that was
// killed arrive no more, not even one that it had begun.
type storeLink struct {
	world *world
	name  string

	mu     sync.Mutex // guards the fields below
	dead   bool
	until  time.Time // of the fault
	fault  storeFault
	paused time.Time // until then it begins no request
}

var errKilled = errors.New("the process was killed")

func unavailable(reason string) error {
	return &eventstore.Error{Kind: eventstore.Unavailable, Reason: reason}
}

// meet lets the process meet a fault for a time.
func (l *storeLink) meet(fault storeFault, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault, l.until = fault, time.Now().Add(d)
}

func (l *storeLink) pause(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = time.Now().Add(d)
}

func (l *storeLink) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
}

// reach waits for the time that a request takes to the store. Then the request may be carried
// out; answered returns the error of the answer.
func (l *storeLink) reach(ctx context.Context) (answered func() error, err error) {
	l.mu.Lock()
	now := time.Now().UnixNano()
	latency := time.Duration(drawn(l.world.seed, l.name, now)%4000)*time.Microsecond + time.Duration(drawn(l.world.seed, l.name)%9973)
	if l.paused.After(time.Now()) {
		latency += time.Until(l.paused)
	}
	fault := l.faultNow()
	l.mu.Unlock()
	if fault == answersLate {
		latency += 3 * time.Second
	}
	if err := backoff.Sleep(ctx, latency); err != nil {
		return nil, unavailable(err.Error())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.dead:
		return nil, unavailable(errKilled.Error())
	case fault == refusesRequests || l.faultNow() == refusesRequests:
		return nil, unavailable("the simulation refuses the request")
	case l.faultNow() == isOverloaded && l.draw("overloaded")%2 == 0:
		return nil, &eventstore.Error{
			Kind: eventstore.Overloaded, RetryAfter: time.Duration(l.draw("after")%3) * time.Second, Reason: "the simulation answers 429",
		}
	}
	return func() error {
		if fault == losesAnswers {
			return unavailable("the simulation loses the answer")
		}
		return nil
	}, nil
}

// draw returns a random number for a request of this moment.
func (l *storeLink) draw(name ...any) uint64 {
	return drawn(l.world.seed, append([]any{l.name, time.Now().UnixNano()}, name...)...)
}

// faultNow returns the fault of this moment. l.mu is held.
func (l *storeLink) faultNow() storeFault {
	if time.Now().Before(l.until) {
		return l.fault
	}
	return 0
}

// faultOfNow is faultNow for callers without l.mu.
func (l *storeLink) faultOfNow() storeFault {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.faultNow()
}

// do is answer for a request whose result is an error.
func (l *storeLink) do(ctx context.Context, request func() error) error {
	_, err := answer(ctx, l, func() (struct{}, error) { return struct{}{}, request() })
	return err
}

// answers yields the results of a request that reaches the store.
func answers[T any](ctx context.Context, l *storeLink, results iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		answered, err := l.reach(ctx)
		if err == nil {
			err = answered()
		}
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		results(yield)
	}
}

// answer carries out a request that reaches the store.
func answer[T any](ctx context.Context, l *storeLink, do func() (T, error)) (T, error) {
	var none T
	answered, err := l.reach(ctx)
	if err != nil {
		return none, err
	}
	result, err := do()
	if lost := answered(); lost != nil {
		return none, lost
	}
	return result, err
}

// longestLate is how late the store carries out a request after its answer.
const longestLate = 20 * time.Second

// write is answer for a request that writes something other than events. The store may carry it out later, with a context
// that does not end.
func write[T any](ctx context.Context, l *storeLink, do func(context.Context) (T, error)) (T, error) {
	var none T
	switch l.faultOfNow() {
	case blocksWrites:
		return answer(ctx, l, func() (T, error) {
			return none, &eventstore.Error{Kind: eventstore.Unauthorized, Reason: writeBlock}
		})
	case carriesOutLater:
		return answer(ctx, l, func() (T, error) {
			late := time.Duration(l.draw("late") % uint64(longestLate))
			l.world.late.Go(func() {
				time.Sleep(late)
				_, err := do(context.WithoutCancel(ctx))
				l.world.note(l.name, fmt.Sprintf("the store has carried out a request %s after its answer: %v", late, err))
			})
			return none, unavailable("the simulation does not answer")
		})
	}
	return answer(ctx, l, func() (T, error) { return do(ctx) })
}

const writeBlock = "cluster_block_exception: index blocked by: [FORBIDDEN/12/index read-only / allow delete (api)]"

// writeEach is write for documents. The store may accept some of them, and none by a write block.
func writeEach[D any](
	ctx context.Context, l *storeLink, documents []D, do func(context.Context, []D) ([]eventstore.Result, error),
) ([]eventstore.Result, error) {
	refused, reason := func(int) bool { return true }, writeBlock
	switch l.faultOfNow() {
	case isBusy:
		refused, reason = func(i int) bool { return l.draw("busy", i)%2 == 0 }, "the simulation is busy"
	case blocksWrites:
	default:
		return write(ctx, l, func(ctx context.Context) ([]eventstore.Result, error) { return do(ctx, documents) })
	}
	return answer(ctx, l, func() ([]eventstore.Result, error) {
		results := make([]eventstore.Result, len(documents))
		var accepted []D
		var places []int
		for i, d := range documents {
			if refused(i) {
				results[i] = eventstore.Result{Status: eventstore.Busy, Reason: reason}
				continue
			}
			accepted, places = append(accepted, d), append(places, i)
		}
		if len(accepted) == 0 {
			return results, nil
		}
		stored, err := do(ctx, accepted)
		if err != nil {
			return nil, err
		}
		for i, result := range stored {
			results[places[i]] = result
		}
		return results, nil
	})
}

package deadletter

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// managementAPI returns the exchanges of queues after some time.
type managementAPI struct {
	takes    map[string]time.Duration // by queue
	err      error
	requests atomic.Int32
}

func (m *managementAPI) exchanges(ctx context.Context, queue string) ([]string, error) {
	m.requests.Add(1)
	select {
	case <-time.After(m.takes[queue]):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return []string{"w.retry"}, m.err
}

func checkerOf(m *managementAPI) *Checker {
	d := NewChecker(schemas.Topology{Prefix: "w"}, nil)
	d.exchanges = m.exchanges
	return d
}

// check checks n dead letters of a queue at the same time, and returns when all of them are checked.
func check(t *testing.T, d *Checker, queue string, n int) {
	t.Helper()
	done := make(chan string)
	for range n {
		go func() { done <- d.Implausible(t.Context(), queue) }()
	}
	for range n {
		if reason := <-done; reason != "" {
			t.Error(reason)
		}
	}
}

// The dead letters of one queue wait for no request about another queue.
func TestQueuesDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := checkerOf(&managementAPI{takes: map[string]time.Duration{"slow": 2 * time.Second}})
		slow := make(chan struct{})
		go func() { defer close(slow); check(t, d, "slow", 100) }()
		synctest.Wait()
		start := time.Now()
		check(t, d, "fast", 100)
		if waited := time.Since(start); waited > 0 {
			t.Errorf("the other queue waited %v", waited)
		}
		<-slow
	})
}

// A backlog of dead letters from a deleted queue is one request, and then one every few seconds.
func TestOneRequestForAMissingQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &managementAPI{err: fmt.Errorf("queue: %w", rabbit.ErrNotFound), takes: map[string]time.Duration{"gone": time.Millisecond}}
		d := checkerOf(api)
		for range 20 {
			check(t, d, "gone", 50)
		}
		if n := api.requests.Load(); n != 1 {
			t.Errorf("%d requests", n)
		}
		time.Sleep(missingCacheTime)
		check(t, d, "gone", 1)
		if n := api.requests.Load(); n != 2 {
			t.Errorf("%d requests: a queue that is declared again is not noticed", n)
		}
	})
}

// While the management API does not answer, one message waits for it now and then, and the others do not.
func TestSilentManagementAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hour := map[string]time.Duration{"a": time.Hour, "b": time.Hour}
		d := checkerOf(&managementAPI{takes: hour})
		check(t, d, "a", 10)
		time.Sleep(retryAfter)
		probe := make(chan struct{})
		go func() { defer close(probe); check(t, d, "a", 1) }()
		synctest.Wait()
		start := time.Now()
		check(t, d, "b", 100)
		if waited := time.Since(start); waited > 0 {
			t.Errorf("another message waited %v", waited)
		}
		<-probe
	})
}

// A queue that just got the exchange is not judged by an answer that is older than the message.
func TestAMismatchIsAskedAgain(t *testing.T) {
	d := checkerOf(&managementAPI{})
	sent := []string{"other"}
	d.exchanges = func(context.Context, string) ([]string, error) { return sent, nil }
	if reason := d.Implausible(t.Context(), "q"); reason == "" {
		t.Error("another exchange is plausible")
	}
	sent = []string{"other", "w.retry"}
	if reason := d.Implausible(t.Context(), "q"); reason != "" {
		t.Error(reason)
	}
	d.exchanges = func(context.Context, string) ([]string, error) { return nil, errors.New("it is not asked") }
	if reason := d.Implausible(t.Context(), "q"); reason != "" || d.silent {
		t.Error("a match is not remembered", reason)
	}
}

package waiting

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// silentOnce is a store that does not answer the first request for a decision.
type silentOnce struct {
	Records
	asked chan struct{} // closed by that request
	done  chan struct{} // closed at its end
	once  atomic.Bool
}

// Record implements Records.
func (s *silentOnce) Record(ctx context.Context, kind, id string) (document []byte, version string, err error) {
	if id != indexID && s.once.CompareAndSwap(false, true) {
		close(s.asked)
		<-s.done
	}
	return s.Records.Record(ctx, kind, id)
}

// A message does not wait for the request of another one.
func TestFindsDoNotWaitForEachOther(t *testing.T) {
	store := systemtest.Store(t)
	state := schemas.State{Message: "m", Queue: "orders"}
	if _, err := record(t.Context(), store, Decision{Action: Now, Operator: "ann", Reason: "it is mended"}, []string{waitOf(state)}, time.Now()); err != nil {
		t.Fatal(err)
	}
	silent := &silentOnce{Records: store, asked: make(chan struct{}), done: make(chan struct{})}
	decisions := NewDecisions(func(context.Context) (Records, error) { return silent, nil })
	found := make(chan bool, 2)
	find := func() {
		_, known, err := decisions.Find(t.Context(), state)
		found <- known && err == nil
	}
	go find()
	<-silent.asked
	go find()
	select {
	case known := <-found:
		if !known {
			t.Error("the second message has not found the decision")
		}
	case <-time.After(30 * time.Second):
		t.Error("the second message waits for the request of the first")
	}
	close(silent.done)
	if !<-found {
		t.Error("a message has not found the decision")
	}
}

// A message that has not been tried waits for its key, with the error of another message.
func TestWhyAMessageWaits(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		state schemas.State
		want  Reason
	}{
		"others of its key fail":                  {schemas.State{Time: now, WaitsSince: now}, KeyFailed},
		"others of its key fail, after a failure": {schemas.State{Time: now, WaitsSince: now, Attempt: 1}, KeyFailed},
		"it failed":                         {schemas.State{Time: now, Attempt: 1}, Failed},
		"it failed, after its key":          {schemas.State{Time: now, WaitsSince: now.Add(-time.Minute), Attempt: 1}, Failed},
		"its service is away":               {schemas.State{Time: now, WaitsSince: now, Waits: 1}, Failed},
		"an earlier message is not handled": {schemas.State{Time: now}, Failed}, // which its handler found out
	} {
		test.state.Failure.Message = "connection refused"
		if m := newMessage(schemas.Event{State: test.state}); m.Reason != test.want || m.Error != "connection refused" {
			t.Errorf("%s: got %s with %q, want %s", name, m.Reason, m.Error, test.want)
		}
	}
}

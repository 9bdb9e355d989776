package delivery

import (
	"context"
	"testing"
)

// The function of AfterSettled is the Subscriber's to call, unless the message was settled before.
func TestAfterSettled(t *testing.T) {
	called := 0
	call := func() { called++ }
	if AfterSettled(t.Context(), call) {
		t.Error("a context without a message has one")
	}
	settled := []bool{}
	state := &State{Redelivered: true, Settle: func(acked bool) { settled = append(settled, acked) }}
	ctx := NewContext(context.Background(), state)
	if !AfterSettled(ctx, call) || called != 0 || !Redelivered(ctx) || Redelivered(t.Context()) {
		t.Errorf("called %d times before the ack", called)
	}
	f, first := state.Take()
	if f(); called != 1 || !first {
		t.Errorf("called %d times, and first is %t", called, first)
	}
	if f, first = state.Take(); f != nil || first {
		t.Error("settled twice")
	}
	if !AfterSettled(ctx, call) || called != 2 {
		t.Errorf("called %d times, once after the ack", called)
	}
	if Settle(ctx, false); len(settled) != 1 || settled[0] {
		t.Errorf("settled %v", settled)
	}
}

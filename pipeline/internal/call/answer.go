package call

import (
	"context"
	"sync/atomic"
)

// Answer is the answer to an attempt, which a handler may keep. A handler that runs on after its time-out
// may keep one, too.
type Answer struct{ text atomic.Pointer[string] }

// Text returns the answer; "" if the handler has kept none.
func (a *Answer) Text() string {
	if text := a.text.Load(); text != nil {
		return *text
	}
	return ""
}

type answerKey struct{}

// WithAnswer returns a context in which KeepAnswer keeps the answer.
func WithAnswer(ctx context.Context) (context.Context, *Answer) {
	a := &Answer{}
	return context.WithValue(ctx, answerKey{}, a), a
}

// KeepAnswer keeps the answer to the attempt of a context, for its `handled` event. Outside of an attempt it
// does nothing.
func KeepAnswer(ctx context.Context, text string) {
	if a, found := ctx.Value(answerKey{}).(*Answer); found {
		a.text.Store(&text)
	}
}

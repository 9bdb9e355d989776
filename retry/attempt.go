package retry

import "context"

// Attempt is one call of a handler with a message.
type Attempt struct {
	Number      int // from 1; an attempt that did not count has the same number as the next one
	Queue       string
	Fingerprint string // of the message
	Replay      string // id of the replay job that published the message; "": none
	Progress    string // how far an earlier attempt got, by Progress; "": it did not say
}

type attemptKey struct{}

// AttemptFrom returns the attempt that a handler is called for; its Number is 0
// outside of a handler.
func AttemptFrom(ctx context.Context) Attempt {
	attempt, _ := ctx.Value(attemptKey{}).(Attempt)
	return attempt
}

// ContextWithAttempt returns the context of an attempt, as a pipeline gives it to a
// handler. The test of a handler may call it.
func ContextWithAttempt(ctx context.Context, attempt Attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, attempt)
}

package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// hangGrace is how long after its time-out a handler may return before it is
// said to hang.
const hangGrace = time.Second

// errNacked is a handler's nack of the message it was given.
var errNacked = errors.New("the handler nacked the message")

// Attempt is one try by a handler.
type Attempt struct {
	Number      int // the first is 1; that of an attempt which was given back comes again
	Queue       string
	Fingerprint string // what the message is known by
	Replay      string // the job that sent the message again; "": none
}

type attemptKey struct{}

// AttemptFrom tells a handler which attempt this is; its Number is 0 outside of one.
func AttemptFrom(ctx context.Context) Attempt {
	attempt, _ := ctx.Value(attemptKey{}).(Attempt)
	return attempt
}

// attempt calls the handler with a copy of the message as first published. A
// panic is a failure.
func (h *routeHandler) attempt(msg *message.Message, verified schemas.VerifiedState) (produced []*message.Message, err error) {
	this := Attempt{
		Number: verified.State.Attempt + 1, Queue: h.route.Queue,
		Fingerprint: verified.State.Fingerprint, Replay: verified.State.Replay,
	}
	ctx := context.WithValue(msg.Context(), attemptKey{}, this)
	if h.route.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.route.Timeout)
		defer cancel()
		defer time.AfterFunc(h.route.Timeout+hangGrace, func() { h.reportHang(this) }).Stop()
	}
	defer h.runningCalls.begin(msg.Context(), verified.State, h.now())()
	input := handlerMessage(ctx, msg, verified.Envelope)
	produced, err = recoverValue(func() ([]*message.Message, error) { return h.route.Handler(input) })
	return produced, errorOrNack(input, err)
}

// errorOrNack: a handler that nacks and returns no error wants the message later.
func errorOrNack(input *message.Message, err error) error {
	select {
	case <-input.Nacked():
		if err == nil {
			return retry.Unavailable(errNacked)
		}
	default:
	}
	return err
}

// reportHang says that a handler went on after its time-out.
func (h *routeHandler) reportHang(a Attempt) {
	h.metrics.hung.WithLabelValues(a.Queue).Inc()
	h.logger.Error("a handler did not return at its time-out; its message stays with it",
		"queue", a.Queue, "timeout", h.route.Timeout, "attempt", a.Number, "fingerprint", a.Fingerprint)
	if h.onHang == nil {
		return
	}
	if err := recoverPanic(func() error { h.onHang(a); return nil }); err != nil {
		h.logger.Error("the hook for hanging handlers failed", "queue", a.Queue, "error", err)
	}
}

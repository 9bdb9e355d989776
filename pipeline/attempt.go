package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/pipeline/internal/call"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// hangGrace is the time after its time-out until a handler is reported as hanging.
const hangGrace = time.Second

// errNacked is the error of a handler that nacked its message and returned none.
var errNacked = errors.New("the handler nacked the message")

// attempt calls the handler with a copy of the message as first published. A panic
// of the handler is returned as an error.
func (h *routeHandler) attempt(msg *message.Message, verified schemas.VerifiedState) (produced []*message.Message, err error) {
	this := retry.Attempt{
		Number: verified.State.Attempt + 1, Queue: h.route.Queue,
		Fingerprint: verified.State.Fingerprint, Replay: verified.State.Replay, Progress: verified.State.Progress,
	}
	ctx := retry.ContextWithAttempt(msg.Context(), this)
	if h.route.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.route.Timeout)
		defer cancel()
		defer time.AfterFunc(h.route.Timeout+hangGrace, func() { h.reportHang(this) }).Stop()
	}
	input := call.Message(ctx, msg, verified.Envelope)
	produced, err = usercode.Call(h.goroutines, func() ([]*message.Message, error) {
		if err := h.route.check(verified.Envelope); err != nil {
			return nil, err
		}
		return h.route.Handler(input)
	})
	return produced, errorOrNack(input, err)
}

// errorOrNack returns the handler's error. A handler that nacks and returns no error
// wants the message later.
func errorOrNack(input *message.Message, err error) error {
	if err == nil && isNacked(input) {
		return retry.Unavailable(errNacked)
	}
	return err
}

// reportHang logs, counts and reports a handler that runs longer than its time-out.
func (h *routeHandler) reportHang(a retry.Attempt) {
	h.metrics.Hung.WithLabelValues(a.Queue).Inc()
	h.logger.Error("a handler did not return at its time-out; its message stays with it",
		"queue", a.Queue, "timeout", h.route.Timeout, "attempt", a.Number, "fingerprint", a.Fingerprint)
	if h.onHang == nil {
		return
	}
	if err := h.goroutines.Run(func() error { h.onHang(a); return nil }); err != nil {
		h.logger.Error("the hook for hanging handlers failed", "queue", a.Queue, "error", err)
	}
}

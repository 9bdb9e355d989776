package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/internal/rabbit/tracing"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline/internal/call"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// hangGrace is the time after its time-out until a handler is reported as hanging.
const hangGrace = time.Second

// errNacked is the error of a handler that nacked its message and returned none.
var errNacked = errors.New("the handler nacked the message")

// attempt calls the handler with a copy of the message as first published, and returns the answer that it has
// kept. A panic of the handler is returned as an error. The state gets the span of the attempt.
func (h *routeHandler) attempt(msg *message.Message, verified *wire.VerifiedState) (produced []*message.Message, answer string, err error) {
	this := retry.Attempt{
		Number: verified.State.Attempt + 1, Queue: h.route.Queue,
		Fingerprint: verified.State.Fingerprint, Replay: verified.State.Replay, Progress: verified.State.Progress,
	}
	ctx, span := h.tracer.Process(msg.Context(), tracing.Step{
		Envelope: verified.Envelope, State: verified.State, Queue: h.route.Queue, Attempt: this.Number, Began: h.now(),
	})
	verified.State.Trace = span.Traceparent(verified.State.Trace)
	ctx, kept := call.WithAnswer(retry.ContextWithAttempt(ctx, this))
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
	err = errorOrNack(input, err)
	h.endSpan(span, err)
	return produced, kept.Text(), err
}

// endSpan ends the span of an attempt. The methods of its error are code of users.
func (f *messageFlow) endSpan(span *tracing.Span, why error) {
	if span == nil {
		return
	}
	ended := f.now()
	if why == nil {
		span.End(ended, nil)
		return
	}
	if !span.Records() {
		span.End(ended, &schemas.Failure{})
		return
	}
	failed, err := usercode.CallWithin(f.goroutines, readTimeout, func() (schemas.Failure, error) { return failure(why), nil })
	if err != nil {
		failed = schemas.Failure{Message: "the handler's error cannot be read", Type: fmt.Sprintf("%T", why)}
	}
	span.End(ended, &failed)
}

// endPublishSpans ends the spans of messages with the results of publishing them.
func (f *messageFlow) endPublishSpans(spans []*tracing.Span, results []error) {
	if spans[0] == nil { // traces are off
		return
	}
	for i, err := range results {
		if err == nil {
			spans[i].End(f.now(), nil)
			continue
		}
		failed := failure(err)
		spans[i].End(f.now(), &failed)
	}
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

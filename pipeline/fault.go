package pipeline

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/pipeline/internal/delivery"
	"github.com/watershipmq/watership/pipeline/internal/output"
	"github.com/watershipmq/watership/schemas"
)

const (
	handlerTries = 3
	faultPause   = 100 * time.Millisecond
)

// queueHandler handles the messages of a queue, and bounds the tries of a message over
// which the handler panics.
type queueHandler struct {
	*messageFlow
	handle message.NoPublishHandlerFunc
	tries  int // of a message over which handle panics

	// onFault publishes a message as poison for a fault of handle.
	onFault func(ctx context.Context, arrived schemas.Envelope, fault error) error
}

// run handles a message, and acknowledges or requeues it.
func (h queueHandler) run(msg *message.Message) error {
	ctx, err := msg.Context(), h.handleOrPoison(msg)
	delivery.Settle(ctx, err == nil && !isNacked(msg))
	if err != nil && ctx.Err() != nil && !usercode.Aborted(err) {
		return endedDelivery{err}
	}
	return err
}

// endedDelivery is the error of a message whose delivery has ended: its connection is lost, which
// has one line of the log for all its messages, or the pipeline stops. The router does not log
// context.Canceled.
type endedDelivery struct{ error }

func (e endedDelivery) Unwrap() error        { return e.error }
func (e endedDelivery) Is(target error) bool { return target == context.Canceled }

func isNacked(msg *message.Message) bool {
	select {
	case <-msg.Nacked():
		return true
	default:
		return false
	}
}

// handleOrPoison calls handle. A message over which handle panics or ends its goroutine would do
// the same at each delivery: it becomes poison after some tries.
func (h queueHandler) handleOrPoison(msg *message.Message) error {
	ctx := msg.Context()
	err := h.try(msg)
	for tries := 1; usercode.Aborted(err) && tries < h.tries && h.sleep(ctx, faultPause) == nil; tries++ {
		err = h.try(msg)
	}
	if !usercode.Aborted(err) {
		return err
	}
	arrived, _ := schemas.FromContext(ctx)
	fault := err
	if err = h.goroutines.Run(func() error { return h.onFault(ctx, arrived, fault) }); err == nil || output.CannotRetry(ctx, err) {
		return err
	}
	return h.goroutines.Run(func() error { return h.moveToUnstorable(ctx, arrived, fault) })
}

func (h queueHandler) try(msg *message.Message) error {
	return h.goroutines.Run(func() error { return h.handle(msg) })
}

// poisonAfterFault publishes a message as poison because of a bug of this package.
func (f *messageFlow) poisonAfterFault(ctx context.Context, e schemas.Envelope, state schemas.State, fault error) error {
	why := failure(fmt.Errorf("handling a message of queue %q failed, which is a fault of Watership: %w", f.queue, fault))
	if state.Failure.Message != "" {
		why.Message += "; it had failed with: " + state.Failure.Message
	}
	if state.FirstFailed.IsZero() {
		state = state.Failed(f.now(), 0, state.Queue, why)
	}
	state.Failure = why
	return f.poison(ctx, e, state)
}

// poisonMessage publishes a message of a route as poison because of a bug of this package.
func (h *routeHandler) poisonMessage(ctx context.Context, arrived schemas.Envelope, fault error) error {
	verified, err := h.verifier.Verify(arrived, arrived.Exchange, h.route.Queue)
	if err != nil {
		return err
	}
	verified.State = ofRoute(h.route, verified.State)
	verified.State.Queue = h.route.Queue
	return h.poisonAfterFault(ctx, verified.Envelope, verified.State, fault)
}

// poisonDeadLetter publishes a dead letter as poison because of a bug of this package.
func (r *retrier) poisonDeadLetter(ctx context.Context, arrived schemas.Envelope, fault error) error {
	verified := r.verifier.VerifyMark(arrived)
	return r.poisonAfterFault(ctx, verified.Envelope, verified.State, fault)
}

// poisonReport publishes a message whose consumer reported on it as poison because of a
// bug of this package.
func (r *retrier) poisonReport(ctx context.Context, arrived schemas.Envelope, fault error) error {
	return r.poisonDeadLetter(ctx, withoutReport(arrived), fault)
}

// poisonDueMessage publishes a message that is due as poison because of a bug of this package.
func (r *retrier) poisonDueMessage(ctx context.Context, arrived schemas.Envelope, fault error) error {
	verified, _, err := r.verifier.VerifyDue(arrived)
	if err != nil {
		return err
	}
	return r.poisonAfterFault(ctx, verified.Envelope, verified.State, fault)
}

// moveToUnstorable publishes a message as it arrived to the queue of unstorable messages.
func (f *messageFlow) moveToUnstorable(ctx context.Context, arrived schemas.Envelope, fault error) error {
	m := rabbit.Message{Exchange: f.topology.Direct(), RoutingKey: f.topology.Unstorable(), Publishing: arrived.Publishing()}
	m.Publishing.Headers = maps.Clone(arrived.Headers)
	maps.DeleteFunc(m.Publishing.Headers, func(name string, _ any) bool {
		return header.SetByBroker(name) || name == "CC" || name == "BCC"
	})
	m.Publishing.Expiration, m.Publishing.UserId = "", ""
	err := f.hold(ctx, "publishing a message to the queue of unstorable messages", func() error { return f.publisher.Publish(ctx, m) })
	if err == nil {
		f.logger.Error("a message can be neither handled nor published as poison, which is a fault of Watership; it is in the queue of unstorable messages",
			"queue", f.queue, "kept", f.topology.Unstorable(), "error", fault)
	}
	return err
}

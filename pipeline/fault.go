package pipeline

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/usercode"
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

// run calls handle. A message over which handle panics, ends its goroutine or never
// returns would do the same at each delivery: it becomes poison after so many tries.
func (h queueHandler) run(msg *message.Message) error {
	ctx := msg.Context()
	err := h.try(msg)
	for tries := 1; usercode.Aborted(err) && tries < h.tries && h.sleep(ctx, faultPause); tries++ {
		err = h.try(msg)
	}
	if !usercode.Aborted(err) {
		return err
	}
	arrived, _ := schemas.FromContext(ctx)
	fault := err
	if err = usercode.Run(func() error { return h.onFault(ctx, arrived, fault) }); err == nil || cannotRetry(ctx, err) {
		return err
	}
	return usercode.Run(func() error { return h.moveToUnstorable(ctx, arrived, fault) })
}

func (h queueHandler) try(msg *message.Message) error {
	return usercode.Run(func() error { return h.handle(msg) })
}

// parseTimeout bounds the reading of a message in memory.
const parseTimeout = 30 * time.Second

// parse calls f, which reads headers that others have written.
func parse[T any](f func() (T, error)) (T, error) { return usercode.CallWithin(parseTimeout, f) }

// parseVerified verifies a message in one of Watership's queues as parse does.
func parseVerified(
	arrived schemas.Envelope, verify func(schemas.Envelope) (schemas.VerifiedState, bool, error),
) (verified schemas.VerifiedState, found bool, err error) {
	type result struct {
		schemas.VerifiedState
		found bool
	}
	h, err := parse(func() (h result, err error) {
		h.VerifiedState, h.found, err = verify(arrived)
		return h, err
	})
	return h.VerifiedState, h.found, err
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
	verified, err := parse(func() (schemas.VerifiedState, error) {
		return h.verifier.Verify(arrived, arrived.Exchange, h.route.Queue)
	})
	if err != nil {
		return err
	}
	verified.State = ofRoute(h.route, verified.State)
	verified.State.Queue = h.route.Queue
	return h.poisonAfterFault(ctx, verified.Envelope, verified.State, fault)
}

// poisonDeadLetter publishes a dead letter as poison because of a bug of this package.
func (r *retrier) poisonDeadLetter(ctx context.Context, arrived schemas.Envelope, fault error) error {
	verified, err := parse(func() (schemas.VerifiedState, error) { return r.verifier.VerifyMark(arrived), nil })
	if err != nil {
		return err
	}
	return r.poisonAfterFault(ctx, verified.Envelope, verified.State, fault)
}

// poisonReport publishes a message whose consumer reported on it as poison because of a
// bug of this package.
func (r *retrier) poisonReport(ctx context.Context, arrived schemas.Envelope, fault error) error {
	return r.poisonDeadLetter(ctx, withoutReport(arrived), fault)
}

// poisonDueMessage publishes a message that is due as poison because of a bug of this package.
func (r *retrier) poisonDueMessage(ctx context.Context, arrived schemas.Envelope, fault error) error {
	verified, _, err := parseVerified(arrived, r.verifier.VerifyDue)
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
		return schemas.SetByBroker(name) || name == "CC" || name == "BCC"
	})
	m.Publishing.Expiration, m.Publishing.UserId = "", ""
	err := f.hold(ctx, "publishing a message to the queue of unstorable messages", func() error { return f.publisher.Publish(ctx, m) })
	if err == nil {
		f.logger.Error("a message can be neither handled nor published as poison, which is a fault of Watership; it is in the queue of unstorable messages",
			"queue", f.queue, "kept", f.topology.Unstorable(), "error", fault)
	}
	return err
}

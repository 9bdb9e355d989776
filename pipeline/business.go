package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// business runs the handler of one route.
//
//	success: outgoing messages, `handled` event, acknowledgement
//	failure: event, delay queue or poison queue, acknowledgement
type business struct {
	*steps
	route Route
}

// handle acknowledges by returning nil. An error means that no durable copy
// could be made, so that the message must come again.
func (b *business) handle(msg *message.Message) error {
	ctx := msg.Context()
	belief, err := b.believe(ctx)
	if err != nil {
		return err
	}
	state, started := belief.State, b.now()
	state.Queue = b.route.Queue
	produced, why := b.attempt(msg, belief)
	took := b.now().Sub(started)
	if why != nil {
		return b.failed(ctx, belief.Envelope, state.Failed(b.now(), took, b.route.Queue, failure(why)), *b.route.Policy, why)
	}
	if err := b.publish(ctx, belief, produced); err != nil {
		return err
	}
	state.Attempt++
	state.EventID, state.Time, state.Duration, state.Failure = "", b.now(), took, schemas.Failure{}
	return b.handled(ctx, belief.Envelope, state)
}

func (b *business) believe(ctx context.Context) (schemas.Belief, error) {
	arrived, ok := schemas.FromContext(ctx)
	if !ok {
		return schemas.Belief{}, errors.New("the message has no envelope: its subscriber is not Watership's")
	}
	belief, err := schemas.Believe(arrived, b.route.Queue)
	if belief.Mismatch {
		b.logger.Error("a message named this queue but its fingerprint is another's; took it for a new one",
			"queue", b.route.Queue, "exchange", arrived.Exchange, "routing_key", arrived.RoutingKey)
	}
	return belief, err
}

// attempt calls the handler with the envelope as first published.
func (b *business) attempt(msg *message.Message, belief schemas.Belief) (produced []*message.Message, err error) {
	ctx := schemas.NewContext(msg.Context(), belief.Envelope)
	ctx = context.WithValue(ctx, attemptKey{}, Attempt{
		Number: belief.State.Attempt + 1, Queue: b.route.Queue, Fingerprint: belief.State.Fingerprint,
	})
	if b.route.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, b.route.Timeout)
		defer cancel()
	}
	msg.SetContext(ctx)
	withoutOurs(msg.Metadata)
	defer func() {
		if value := recover(); value != nil {
			err = &retry.PanicError{Value: value, Stack: string(debug.Stack())}
		}
	}()
	return b.route.Handler(msg)
}

// withoutOurs keeps handlers from copying our headers to what they publish.
func withoutOurs(metadata message.Metadata) {
	for name := range metadata {
		if strings.HasPrefix(name, "watership-") {
			delete(metadata, name)
		}
	}
}

// publish sends a handler's outgoing messages and waits until all are confirmed.
func (b *business) publish(ctx context.Context, parent schemas.Belief, produced []*message.Message) error {
	for i, msg := range produced {
		out, err := b.outgoing(msg, parent, i)
		if err != nil {
			return err
		}
		if err := b.publisher.Publish(ctx, out); err != nil {
			return fmt.Errorf("publishing outgoing message %d of %d: %w", i+1, len(produced), err)
		}
	}
	return nil
}

type attemptKey struct{}

// Attempt is one try by a handler.
type Attempt struct {
	Number      int // the first is 1
	Queue       string
	Fingerprint string // what the message is known by
}

// AttemptFrom tells a handler which attempt this is; its Number is 0 outside of one.
func AttemptFrom(ctx context.Context) Attempt {
	attempt, _ := ctx.Value(attemptKey{}).(Attempt)
	return attempt
}

// Route is a queue, its bindings, its handler and its retry policy.
type Route struct {
	Queue       string
	Bind        []Binding
	Handler     message.HandlerFunc
	Policy      *retry.Policy // nil: Config.Default
	Concurrency int           // messages handled at once; zero: 16
	Timeout     time.Duration // of one attempt; zero: none

	// Publish is where outgoing messages go that name no exchange themselves.
	Publish Binding
}

// Binding is an exchange and a routing key.
type Binding struct {
	Exchange string
	Key      string
}

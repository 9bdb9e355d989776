package transfer

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"golang.org/x/time/rate"

	"github.com/watershipmq/watership/internal/rabbit"
)

// inFlight is the most messages that wait for their confirms at once.
const inFlight = 1000

// confirmTimeout bounds the wait for the confirm of one message.
const confirmTimeout = 15 * time.Second

// Publish publishes messages in order, at most perSecond (0: no limit), and
// counts the confirmed messages, for progress as well. It ends at the first message that
// is not confirmed.
func Publish(ctx context.Context, publisher *rabbit.Publisher, messages iter.Seq2[rabbit.Message, error], perSecond float64, progress func(confirmed int)) (confirmed int, err error) {
	limiter := rate.NewLimiter(rate.Inf, 1)
	if perSecond > 0 {
		limiter.SetLimit(rate.Limit(perSecond))
	}
	out := outbox{progress: progress}
	for m, err := range messages {
		if err == nil {
			err = limiter.Wait(ctx)
		}
		if err == nil {
			err = out.add(ctx, publisher, m)
		}
		if err != nil {
			err = errors.Join(err, out.drain(ctx))
			return out.confirmed, err
		}
	}
	err = out.drain(ctx)
	return out.confirmed, err
}

// outbox holds the unconfirmed messages, and counts the confirmed ones.
type outbox struct {
	progress  func(confirmed int)
	waiting   []*rabbit.Pending
	confirmed int
}

// add publishes a message, and waits for the oldest confirm if inFlight are missing.
func (o *outbox) add(ctx context.Context, publisher *rabbit.Publisher, m rabbit.Message) error {
	pending, err := publisher.Send(ctx, m)
	if err != nil {
		return err
	}
	if o.waiting = append(o.waiting, pending); len(o.waiting) < inFlight {
		return nil
	}
	return o.waitOldest(ctx)
}

func (o *outbox) waitOldest(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, confirmTimeout, fmt.Errorf("no answer within %s", confirmTimeout))
	defer cancel()
	err := o.waiting[0].Wait(ctx)
	if o.waiting = o.waiting[1:]; err == nil {
		o.confirmed++
		o.progress(o.confirmed)
	}
	return err
}

// drain waits for all confirms; of several errors the first says enough.
func (o *outbox) drain(ctx context.Context) (first error) {
	for len(o.waiting) > 0 {
		if err := o.waitOldest(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}

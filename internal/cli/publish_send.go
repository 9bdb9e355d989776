package cli

import (
	"context"
	"errors"
	"iter"

	"golang.org/x/time/rate"

	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/rabbit"
)

// inFlight is the most messages that wait for their confirms at once.
const inFlight = 1000

// send publishes in order and counts the confirmed messages, for progress as well. It
// ends at the first message that is not confirmed.
func send(ctx context.Context, publisher *rabbit.Publisher, messages iter.Seq2[rabbit.Message, error], most float64, progress func(confirmed int)) (confirmed int, err error) {
	pace := rate.NewLimiter(rate.Inf, 1)
	if most > 0 {
		pace.SetLimit(rate.Limit(most))
	}
	out := outbox{progress: progress}
	for m, err := range messages {
		if err == nil {
			err = pace.Wait(ctx)
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
	return o.oldest(ctx)
}

func (o *outbox) oldest(ctx context.Context) error {
	ctx, cancel := app.WithTimeout(ctx)
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
		if err := o.oldest(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}

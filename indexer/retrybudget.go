package indexer

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/schemas"
)

const (
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
)

// pause waits after a number of consecutive failures, for at least as long as the store
// asks.
func pause(ctx context.Context, failures int, retryAfter time.Duration) error {
	return backoff.Backoff{Min: minPause, Max: maxPause}.Wait(ctx, failures, retryAfter)
}

// retryBudget limits the time for which requests to a failing store are repeated. Every
// success renews it, up to a final deadline.
type retryBudget struct {
	failures      int // since the last success
	requeueAfter  time.Duration
	deadline      time.Time
	finalDeadline time.Time
	lastTry       time.Time // when the last request began
	log           *slog.Logger

	readFailure, writeFailure *storeFailure // the indexer's
}

// maxHoldFactor limits the time for which messages stay unacknowledged, in multiples of
// RequeueAfter: by default 15 minutes, half of RabbitMQ's acknowledgement time-out.
const maxHoldFactor = 5

func (x *Indexer) newRetryBudget() *retryBudget {
	now := time.Now()
	return &retryBudget{
		requeueAfter: x.cfg.RequeueAfter, deadline: now.Add(x.cfg.RequeueAfter),
		finalDeadline: now.Add(maxHoldFactor * x.cfg.RequeueAfter),
		lastTry:       now, log: x.cfg.Logger, readFailure: &x.readFailure, writeFailure: &x.writeFailure,
	}
}

// renew starts the budget again after the store wrote documents.
func (b *retryBudget) renew() {
	b.failures, b.lastTry = 0, time.Now()
	b.writeFailure.clear()
	if b.deadline = b.lastTry.Add(b.requeueAfter); b.deadline.After(b.finalDeadline) {
		b.deadline = b.finalDeadline
	}
}

// waitAfterWrite waits before the next write. It returns the error of the last one when
// the budget is used up: the messages have to be requeued.
func (b *retryBudget) waitAfterWrite(ctx context.Context, err error) error {
	return b.waitAfter(ctx, b.writeFailure, err)
}

func (b *retryBudget) waitAfter(ctx context.Context, failure *storeFailure, err error) error {
	if ctx.Err() != nil { // it interrupted the request
		return context.Cause(ctx)
	}
	failure.record(b.lastTry, err)
	defer func() { b.lastTry = time.Now() }()
	if b.failures == 0 {
		b.log.Warn("the store did not accept every document; retrying", "error", err)
	}
	var retryAfter time.Duration
	var storeError *eventstore.Error
	if errors.As(err, &storeError) {
		retryAfter = storeError.RetryAfter
	}
	if time.Now().Add(retryAfter).After(b.deadline) {
		return err
	}
	b.failures++
	return pause(ctx, b.failures, retryAfter)
}

// do repeats a read until the store answers or the budget is used up.
func (b *retryBudget) do(ctx context.Context, read func() error) error {
	for {
		err := read()
		var storeError *eventstore.Error
		if err == nil {
			b.readFailure.clear()
		}
		if err == nil || !errors.As(err, &storeError) {
			return err
		}
		if err := b.waitAfter(ctx, b.readFailure, storeError); err != nil {
			return err
		}
	}
}

// formatFor returns a format for some events. While keys cannot be had, it waits as for the store, so that
// nothing is stored without them.
func (b *retryBudget) formatFor(ctx context.Context, format schemas.DocumentFormat, events []schemas.Event) (ready schemas.DocumentFormat, err error) {
	err = b.do(ctx, func() (err error) {
		ready, err = format.For(ctx, events)
		return err
	})
	return ready, err
}

package indexer

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// backoff is growing, jittered pauses.
type backoff struct{ attempt int }

const (
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
)

// wait pauses at least as long as the store asked for.
func (b *backoff) wait(ctx context.Context, asked time.Duration) error {
	pause := min(minPause<<min(b.attempt, 10), maxPause)
	pause = max(asked, pause/2+rand.N(pause/2+1))
	b.attempt++
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// patience bounds how long messages are held while the store does not take
// them. It starts anew whenever the store took some, up to the end.
type retryBudget struct {
	backoff
	requeueAfter  time.Duration
	deadline      time.Time
	finalDeadline time.Time
	lastTry       time.Time // when the last try began
	log           *slog.Logger

	readFailure, writeFailure *storeFailure // the indexer's
}

// holdAtMost is how often patience may start anew: messages are held for 15
// minutes by default, half of RabbitMQ's acknowledgement time-out.
const maxHoldFactor = 5

func (x *Indexer) newRetryBudget() *retryBudget {
	now := time.Now()
	return &retryBudget{
		requeueAfter: x.cfg.RequeueAfter, deadline: now.Add(x.cfg.RequeueAfter), finalDeadline: now.Add(maxHoldFactor * x.cfg.RequeueAfter),
		lastTry: now, log: x.cfg.Logger, readFailure: &x.readFailure, writeFailure: &x.writeFailure,
	}
}

// progress is that the store took something.
func (p *retryBudget) renew() {
	p.attempt, p.lastTry = 0, time.Now()
	p.writeFailure.clear()
	if p.deadline = p.lastTry.Add(p.requeueAfter); p.deadline.After(p.finalDeadline) {
		p.deadline = p.finalDeadline
	}
}

// failed waits before the next try to write, or returns the error when it is time
// to give the messages back.
func (p *retryBudget) waitAfterWrite(ctx context.Context, err error) error {
	return p.waitAfter(ctx, p.writeFailure, err)
}

func (p *retryBudget) waitAfter(ctx context.Context, refusal *storeFailure, err error) error {
	if ctx.Err() != nil { // which cut the request short
		return context.Cause(ctx)
	}
	refusal.record(p.lastTry, err)
	defer func() { p.lastTry = time.Now() }()
	if p.attempt == 0 {
		p.log.Warn("the store did not take everything; sending it again until it does", "error", err)
	}
	var asked time.Duration
	var failed *schemas.StoreError
	if errors.As(err, &failed) {
		asked = failed.RetryAfter
	}
	if time.Now().Add(asked).After(p.deadline) {
		return err
	}
	return p.wait(ctx, asked)
}

// insist repeats a request to read until the store answers it, or patience ends.
func (p *retryBudget) do(ctx context.Context, request func() error) error {
	for {
		err := request()
		var failed *schemas.StoreError
		if err == nil {
			p.readFailure.clear()
		}
		if err == nil || !errors.As(err, &failed) {
			return err
		}
		if err := p.waitAfter(ctx, p.readFailure, failed); err != nil {
			return err
		}
	}
}

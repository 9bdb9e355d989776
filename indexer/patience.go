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
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
)

// wait pauses at least as long as the store asked for.
func (b *backoff) wait(ctx context.Context, asked time.Duration) error {
	pause := min(firstPause<<min(b.attempt, 10), lastPause)
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
type patience struct {
	backoff
	giveBack time.Duration
	until    time.Time
	end      time.Time
	tried    time.Time // when the last try began
	log      *slog.Logger

	reads, writes *refusal // the indexer's
}

// holdAtMost is how often patience may start anew: messages are held for 15
// minutes by default, half of RabbitMQ's acknowledgement time-out.
const holdAtMost = 5

func (x *Indexer) patience() *patience {
	now := time.Now()
	return &patience{
		giveBack: x.cfg.GiveBack, until: now.Add(x.cfg.GiveBack), end: now.Add(holdAtMost * x.cfg.GiveBack),
		tried: now, log: x.cfg.Logger, reads: &x.reads, writes: &x.writes,
	}
}

// progress is that the store took something.
func (p *patience) progress() {
	p.attempt, p.tried = 0, time.Now()
	p.writes.over()
	if p.until = p.tried.Add(p.giveBack); p.until.After(p.end) {
		p.until = p.end
	}
}

// failed waits before the next try to write, or returns the error when it is time
// to give the messages back.
func (p *patience) failed(ctx context.Context, err error) error { return p.again(ctx, p.writes, err) }

func (p *patience) again(ctx context.Context, refusal *refusal, err error) error {
	if ctx.Err() != nil { // which cut the request short
		return context.Cause(ctx)
	}
	refusal.failed(p.tried, err)
	defer func() { p.tried = time.Now() }()
	if p.attempt == 0 {
		p.log.Warn("the store did not take everything; sending it again until it does", "error", err)
	}
	var asked time.Duration
	var failed *schemas.StoreError
	if errors.As(err, &failed) {
		asked = failed.RetryAfter
	}
	if time.Now().Add(asked).After(p.until) {
		return err
	}
	return p.wait(ctx, asked)
}

// insist repeats a request to read until the store answers it, or patience ends.
func (p *patience) insist(ctx context.Context, request func() error) error {
	for {
		err := request()
		var failed *schemas.StoreError
		if err == nil {
			p.reads.over()
		}
		if err == nil || !errors.As(err, &failed) {
			return err
		}
		if err := p.again(ctx, p.reads, failed); err != nil {
			return err
		}
	}
}

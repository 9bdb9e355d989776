// Package deadletter checks whether dead letters come from the queues that they name.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/schemas"
)

const (
	cacheTime  = time.Minute     // a queue's dead-letter exchange
	retryAfter = 5 * time.Second // after the management API did not answer
	timeout    = 3 * time.Second
	maxCache   = 1000 // that are remembered
)

// Checker checks the x-death header of dead letters against the queues that it
// names. Without the management API it accepts every header.
type Checker struct {
	Topology  schemas.Topology
	Discovery *topology.Discovery // nil: there is no management API

	// Trusted is true if the broker wrote every death of a message, as RabbitMQ does
	// since 4.0. It is set before the first message is delivered.
	Trusted bool

	requests singleflight.Group // to the management API, by queue

	mu          sync.Mutex // guards the fields below
	known       map[string]deadLetterExchange
	silentUntil time.Time // the management API is not asked until then
}

type deadLetterExchange struct {
	name  string
	until time.Time
}

// Follows returns a function that reports whether the older of two deaths published its
// message to the exchange of the newer one.
func (d *Checker) Follows(ctx context.Context) func(older, newer schemas.Death) bool {
	return func(older, newer schemas.Death) bool {
		if d.Trusted {
			return true
		}
		exchange, known := d.exchangeOf(ctx, older.Queue)
		return known && exchange == newer.Exchange
	}
}

// Implausible returns the reason for which a message cannot have died in a queue and
// arrived here, "" if it can: only queues whose dead-letter exchange is Watership's send
// dead letters, and Watership's own queues do not.
func (d *Checker) Implausible(ctx context.Context, queue string) (reason string) {
	if d.Topology.Owns(queue) {
		return fmt.Sprintf("its x-death header names queue %q, which is Watership's own", queue)
	}
	if exchange, known := d.exchangeOf(ctx, queue); known && exchange != d.Topology.Retry() {
		return fmt.Sprintf("its x-death header names queue %q, which has another dead-letter exchange than %q", queue, d.Topology.Retry())
	}
	return ""
}

// exchangeOf returns the dead-letter exchange of a queue, "" if it has none. known is
// false if the queue does not exist or the management API does not answer. Only dead letters of
// this queue wait for the answer, which all of them share.
func (d *Checker) exchangeOf(ctx context.Context, queue string) (exchange string, known bool) {
	if d.Discovery == nil {
		return "", false
	}
	for {
		if exchange, known, decided := d.remembered(queue); decided {
			return exchange, known
		}
		answer, err, _ := d.requests.Do(queue, func() (any, error) { return d.ask(ctx, queue) })
		if errors.Is(err, context.Canceled) && ctx.Err() == nil {
			continue // the dead letter that asked is no longer handled
		}
		exchange, _ = answer.(string)
		return exchange, err == nil
	}
}

// remembered returns what is known without a request: it is decided, or the management API is to be
// asked.
func (d *Checker) remembered(queue string) (exchange string, known, decided bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if remembered, there := d.known[queue]; there && now.Before(remembered.until) {
		return remembered.name, true, true
	}
	return "", false, now.Before(d.silentUntil)
}

// ask asks the management API, and remembers its answer.
func (d *Checker) ask(ctx context.Context, queue string) (exchange string, err error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	exchange, err = d.Discovery.DeadLetterExchange(limited, queue)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch now := time.Now(); {
	case err == nil:
		if d.known == nil || len(d.known) >= maxCache {
			d.known = map[string]deadLetterExchange{}
		}
		d.known[queue] = deadLetterExchange{exchange, now.Add(cacheTime)}
	case ctx.Err() == nil && !errors.Is(err, rabbit.ErrNotFound):
		d.silentUntil = now.Add(retryAfter)
	}
	if err != nil && ctx.Err() != nil {
		return "", context.Canceled
	}
	return exchange, err
}

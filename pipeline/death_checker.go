package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/schemas"
)

const (
	deathCacheTime  = time.Minute     // a queue's dead-letter exchange
	deathRetryAfter = 5 * time.Second // after the management API did not answer
	deathTimeout    = 3 * time.Second
	maxDeathCache   = 1000 // that are remembered
)

// deathChecker checks the x-death header of dead letters against the queues that it
// names. Without the management API it accepts every header.
type deathChecker struct {
	topology  schemas.Topology
	discovery *topology.Discovery // nil: there is no management API
	now       func() time.Time

	// trusted is true if the broker wrote every death of a message, as RabbitMQ does
	// since 4.0. It is set before the first message is delivered.
	trusted bool

	mu          sync.Mutex // guards the fields below
	known       map[string]deadLetterExchange
	silentUntil time.Time // the management API is not asked until then
}

type deadLetterExchange struct {
	name  string
	until time.Time
}

// follows returns a function that reports whether the older of two deaths published its
// message to the exchange of the newer one.
func (d *deathChecker) follows(ctx context.Context) func(older, newer schemas.Death) bool {
	return func(older, newer schemas.Death) bool {
		if d.trusted {
			return true
		}
		exchange, known := d.exchangeOf(ctx, older.Queue)
		return known && exchange == newer.Exchange
	}
}

// implausible returns the reason for which a message cannot have died in a queue and
// arrived here, "" if it can: only queues whose dead-letter exchange is Watership's send
// dead letters, and Watership's own queues do not.
func (d *deathChecker) implausible(ctx context.Context, queue string) (reason string) {
	if d.topology.Owns(queue) {
		return fmt.Sprintf("its x-death header names queue %q, which is Watership's own", queue)
	}
	if exchange, known := d.exchangeOf(ctx, queue); known && exchange != d.topology.Retry() {
		return fmt.Sprintf("its x-death header names queue %q, which has another dead-letter exchange than %q", queue, d.topology.Retry())
	}
	return ""
}

// exchangeOf returns the dead-letter exchange of a queue, "" if it has none. known is
// false if the queue does not exist or the management API does not answer.
func (d *deathChecker) exchangeOf(ctx context.Context, queue string) (exchange string, known bool) {
	if d.discovery == nil {
		return "", false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	if remembered, there := d.known[queue]; there && now.Before(remembered.until) {
		return remembered.name, true
	}
	if now.Before(d.silentUntil) {
		return "", false
	}
	ctx, cancel := context.WithTimeout(ctx, deathTimeout)
	defer cancel()
	exchange, err := d.discovery.DeadLetterExchange(ctx, queue)
	switch {
	case errors.Is(err, rabbit.ErrNotFound):
		return "", false
	case err != nil:
		d.silentUntil = d.now().Add(deathRetryAfter)
		return "", false
	}
	if d.known == nil || len(d.known) >= maxDeathCache {
		d.known = map[string]deadLetterExchange{}
	}
	d.known[queue] = deadLetterExchange{exchange, now.Add(deathCacheTime)}
	return exchange, true
}

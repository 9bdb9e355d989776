package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/schemas"
)

const (
	deathCacheTime  = time.Minute     // a queue's dead-letter exchange
	deathRetryAfter = 5 * time.Second // after the management API gave no answer
	deathTimeout    = 3 * time.Second
	maxDeathCache   = 1000 // that are remembered
)

// deathChecker knows what dead letters may say of where they died. Without the management API
// it takes them at their word.
type deathChecker struct {
	topology  schemas.Topology
	discovery *transport.Discovery // nil: there is no management API
	now       func() time.Time

	// certain says that the broker wrote every death of a message, as RabbitMQ does
	// since 4.0. It is set before any message comes.
	trusted bool

	mu          sync.Mutex // guards what follows
	known       map[string]deadLetterExchange
	silentUntil time.Time // until when nobody is asked
}

type deadLetterExchange struct {
	name  string
	until time.Time
}

// follows says whether a death took its message to the exchange of the one after it.
func (d *deathChecker) follows(ctx context.Context) func(older, newer schemas.Death) bool {
	return func(older, newer schemas.Death) bool {
		if d.trusted {
			return true
		}
		exchange, known := d.exchangeOf(ctx, older.Queue)
		return known && exchange == newer.Exchange
	}
}

// implausible is why a message cannot have died in a queue and come here, "" if it can: only
// queues with our dead-letter exchange send us any, and none of ours does.
func (d *deathChecker) implausible(ctx context.Context, queue string) (reason string) {
	if d.topology.Owns(queue) {
		return fmt.Sprintf("its x-death header names queue %q, which is Watership's own", queue)
	}
	if exchange, known := d.exchangeOf(ctx, queue); known && exchange != d.topology.Retry() {
		return fmt.Sprintf("its x-death header names queue %q, which has another dead-letter exchange than %q", queue, d.topology.Retry())
	}
	return ""
}

// exchangeOf is the dead-letter exchange of a queue, "" where it has none; known says
// whether there is such a queue and the management API answers.
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

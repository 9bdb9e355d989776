// Package deadletter checks whether dead letters come from the queues that they name.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

const (
	cacheTime        = time.Minute     // of exchanges
	missingCacheTime = 5 * time.Second // of a queue that does not exist
	retryAfter       = 5 * time.Second // after the management API did not answer
	timeout          = 3 * time.Second
	maxCache         = 1000 // queues that are remembered
	maxRequests      = 4    // at the same time
)

// Checker checks the x-death header of dead letters against the queues that it
// names. Without the management API it accepts every header.
type Checker struct {
	Topology schemas.Topology

	// Trusted is true if the broker wrote every death of a message, as RabbitMQ does
	// since 4.0. It is set before the first message is delivered.
	Trusted bool

	exchanges func(ctx context.Context, queue string) ([]string, error) // nil: there is no management API
	turns     chan struct{}                                             // of requests; it has room for maxRequests

	mu          sync.Mutex // guards the fields below
	known       map[string]answer
	requests    map[string]*request // by queue
	silent      bool                // the management API did not answer the last time
	silentUntil time.Time           // it is not asked until then
}

// answer is the response of the management API about a queue.
type answer struct {
	exists    bool
	exchanges []string // to which its dead letters may go
	until     time.Time
}

// request is a request to the management API, with the messages that wait for it.
type request struct {
	done   chan struct{}
	answer answer // may be read when done is closed
}

// NewChecker returns a Checker; discovery is nil if there is no management API.
func NewChecker(names schemas.Topology, discovery *topology.Discovery) *Checker {
	d := &Checker{
		Topology: names, turns: make(chan struct{}, maxRequests), known: map[string]answer{}, requests: map[string]*request{},
	}
	if discovery != nil {
		d.exchanges = discovery.DeadLetterExchanges
	}
	return d
}

// Follows returns a function that reports whether the older of two deaths published its
// message to the exchange of the newer one.
func (d *Checker) Follows(ctx context.Context) func(older, newer header.Death) bool {
	return func(older, newer header.Death) bool {
		if d.Trusted {
			return true
		}
		a := d.answerFor(ctx, older.Queue, newer.Exchange)
		return a.exists && a.allows(newer.Exchange)
	}
}

// Implausible returns the reason for which a message cannot have died in a queue and
// arrived here, "" if it can: only queues whose dead-letter exchange is Watership's send
// dead letters, and Watership's own queues do not.
func (d *Checker) Implausible(ctx context.Context, queue string) (reason string) {
	if d.Topology.Owns(queue) {
		return fmt.Sprintf("its x-death header names queue %q, which is Watership's own", queue)
	}
	if !d.answerFor(ctx, queue, d.Topology.Retry()).allows(d.Topology.Retry()) {
		return fmt.Sprintf("its x-death header names queue %q, which has another dead-letter exchange than %q", queue, d.Topology.Retry())
	}
	return ""
}

// allows reports whether dead letters of the queue may go to an exchange, as far as is known.
func (a answer) allows(exchange string) bool {
	return !a.exists || slices.Contains(a.exchanges, exchange)
}

// answerFor returns the exchanges to which dead letters of a queue may go. The zero value means that the queue
// does not exist, or that the management API does not answer. An answer without the exchange in question is
// newer than the message, since the queue may just have got the exchange.
func (d *Checker) answerFor(ctx context.Context, queue, exchange string) answer {
	if d.exchanges == nil {
		return answer{}
	}
	d.mu.Lock()
	a, there := d.known[queue]
	d.mu.Unlock()
	if there && time.Now().Before(a.until) && a.allows(exchange) {
		return a
	}
	a, isNewer := d.ask(ctx, queue)
	if !isNewer && !a.allows(exchange) {
		a, _ = d.ask(ctx, queue) // which begins after the end of the first request
	}
	return a
}

// ask returns the answer to the request about a queue that is under way, or else to a new one, and reports
// whether it is a new one.
func (d *Checker) ask(ctx context.Context, queue string) (a answer, isNew bool) {
	d.mu.Lock()
	r, underWay := d.requests[queue]
	if !underWay {
		r = &request{done: make(chan struct{})}
		d.requests[queue] = r
	}
	d.mu.Unlock()
	if !underWay {
		d.send(ctx, queue, r)
	}
	select {
	case <-r.done:
		return r.answer, !underWay
	case <-ctx.Done():
		return answer{}, true
	}
}

// send sends a request when it has its turn. The requests of other queues go on. Others wait for its answer,
// so the end of ctx does not end it.
func (d *Checker) send(ctx context.Context, queue string, r *request) {
	defer close(r.done)
	defer d.remove(queue)
	d.turns <- struct{}{}
	defer func() { <-d.turns }()
	if !d.mayAsk() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	names, err := d.exchanges(ctx, queue)
	r.answer = d.note(queue, names, err)
}

func (d *Checker) remove(queue string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.requests, queue)
}

// mayAsk reports whether a request may be sent. While the management API is silent, one request tries it, and
// other messages do not wait.
func (d *Checker) mayAsk() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if now.Before(d.silentUntil) {
		return false
	}
	if d.silent {
		d.silentUntil = now.Add(timeout + retryAfter)
	}
	return true
}

// note keeps the result of a request, and returns the answer for those that wait.
func (d *Checker) note(queue string, exchanges []string, err error) answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	isMissing := errors.Is(err, rabbit.ErrNotFound)
	if d.silent = err != nil && !isMissing; d.silent {
		d.silentUntil = now.Add(retryAfter)
		return answer{}
	}
	d.silentUntil = time.Time{}
	a := answer{exists: !isMissing, exchanges: exchanges, until: now.Add(cacheTime)}
	if isMissing {
		a.until = now.Add(missingCacheTime)
	}
	if len(d.known) >= maxCache {
		clear(d.known)
	}
	d.known[queue] = a
	return a
}

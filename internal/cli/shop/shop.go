// Package shop is an example system: orders are billed, paid orders are packed, and
// packed orders are shipped.
//
//	order.placed ─► shop.orders (topic) ─► billing ─► shop.payments (direct) ─► warehouse
//	order.changed ─────────┴─► changes                                             │
//	                                        carrier, mail ◄─ shop.shipments (fanout)
//
// Some changes arrive before their order, an order without a customer can never be
// billed, and for some seconds of every minute the payment provider is down.
package shop

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/retry"
)

// The exchanges.
const (
	Orders    = "shop.orders"
	Payments  = "shop.payments"
	Shipments = "shop.shipments"
)

// The queues.
const (
	Billing   = "shop.billing"
	Changes   = "shop.changes"
	Warehouse = "shop.warehouse"
	Carrier   = "shop.carrier"
	Mail      = "shop.mail"
)

// Config sets the orders of a shop. The zero value has none.
type Config struct {
	Seed  uint64  // the same orders for the same seed
	Rate  float64 // orders a second
	First int     // the number of the first order
}

// Shop is the example system. Its handlers may run at once.
type Shop struct {
	cfg Config

	mu       sync.Mutex // guards the fields below
	openedAt time.Time  // zero before Open
	placed   map[int]bool
}

// New returns a shop, which Open opens.
func New(cfg Config) *Shop { return &Shop{cfg: cfg, placed: map[int]bool{}} }

// Taps lists the exchanges whose messages are recorded.
func (s *Shop) Taps() []pipeline.Tap {
	return []pipeline.Tap{
		{Exchange: Orders, Type: "topic"},
		{Exchange: Payments, Type: "direct", Keys: []string{paymentTaken}},
		{Exchange: Shipments, Type: "fanout"},
	}
}

// Routes lists the services of the shop.
func (s *Shop) Routes() []pipeline.Route {
	policy := &retry.Policy{
		Delays: []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second},
		Classes: map[string]retry.Policy{
			orderingClass: {First: 500 * time.Millisecond, Attempts: 10},
		},
	}
	return []pipeline.Route{
		{
			Queue: Billing, Bind: []pipeline.Binding{{Exchange: Orders, Key: orderPlaced}}, Handler: s.bill, Policy: policy,
			Breaker: &retry.Breaker{Messages: -1}, // or no order would be given up, and there would be nothing to replay
		},
		{Queue: Changes, Bind: []pipeline.Binding{{Exchange: Orders, Key: orderChanged}}, Handler: s.change, Policy: policy},
		{Queue: Warehouse, Bind: []pipeline.Binding{{Exchange: Payments, Key: paymentTaken}}, Handler: s.pack, Policy: policy},
		{Queue: Carrier, Bind: []pipeline.Binding{{Exchange: Shipments}}, Handler: s.ship, Policy: policy},
		{Queue: Mail, Bind: []pipeline.Binding{{Exchange: Shipments}}, Handler: s.ship, Policy: policy},
	}
}

// Send sends a message in the order of its calls, and returns before it is confirmed;
// confirmed waits for that.
type Send func(context.Context, rabbit.Message) (confirmed func(context.Context) error, err error)

// maxUnconfirmed is the number of messages that may wait for their confirms.
const maxUnconfirmed = 1000

// Open publishes orders until ctx ends.
func (s *Shop) Open(ctx context.Context, send Send) error {
	s.mu.Lock()
	s.openedAt = time.Now()
	s.mu.Unlock()
	group, groupCtx := errgroup.WithContext(ctx)
	sent := make(chan func(context.Context) error, maxUnconfirmed)
	group.Go(func() error {
		defer close(sent)
		return s.publish(groupCtx, send, sent)
	})
	group.Go(func() error {
		for confirmed := range sent {
			if err := confirmed(groupCtx); err != nil {
				return err
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("publishing an order of the example shop: %w", err)
	}
	return nil
}

// publish sends orders at the rate until ctx ends, faster after a pause of at most a
// second.
func (s *Shop) publish(ctx context.Context, send Send, sent chan<- func(context.Context) error) error {
	burst := max(1, int(s.cfg.Rate))
	limiter := rate.NewLimiter(rate.Limit(s.cfg.Rate), burst)
	limiter.AllowN(time.Now(), burst-1)
	for n := s.cfg.First; limiter.Wait(ctx) == nil; n++ {
		for _, e := range s.messages(n) {
			confirmed, err := send(ctx, rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()})
			if err != nil {
				return err
			}
			select {
			case sent <- confirmed:
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// Times of the outage, from when the shop opens. It lasts longer than the attempts of
// one order, and repeats every minute.
const (
	outageInterval = time.Minute
	outageBegin    = 2 * time.Second

	// OutageEnd is the end of the first outage.
	OutageEnd = 8 * time.Second
)

// isOutage reports whether the payment provider is down.
func (s *Shop) isOutage() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.openedAt.IsZero() {
		return false
	}
	at := time.Since(s.openedAt) % outageInterval
	return at >= outageBegin && at < OutageEnd
}

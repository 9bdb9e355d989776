package breaker

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/schemas"
)

// Subscriber is the subscriber of a route. While the route's breaker is closed it
// delivers as many messages at once as the route handles. While the breaker is open it
// consumes probes only: after each pause single messages, one after the other, until a
// handler succeeds. Running handlers and other routes are not affected.
//
// At most the few messages that were prefetched when the consumer stopped are requeued;
// RabbitMQ puts them at the head of the queue and delivers them next, so that this does
// not count up to a delivery limit.
type Subscriber struct {
	route   Route
	breaker *Breaker

	out           chan *message.Message
	slots         chan struct{} // a token for each message that a handler has
	recoverySlots chan struct{} // a token for each message of a handler while the route recovers
	hungProbes    chan struct{} // a token for each probe that runs longer than its time-out, without a slot
	handlers      sync.WaitGroup
	running       sync.WaitGroup

	mu        sync.Mutex                     // guards delivered
	delivered map[*message.Message]*delivery // messages that a handler has
}

// delivery is a message that a handler has.
type delivery struct {
	ctx  context.Context // of the message
	done func()
}

// Route has the consumers of a route. These end with their contexts and wait for no
// handler: Subscriber does. They call Subscriber.Settled.
type Route struct {
	Queue              string
	Concurrent, Single message.Subscriber // with Concurrency, and with 1
	Concurrency        int
	HandlerTimeout     time.Duration // after which a handler hangs; 0: none
	StopTimeout        time.Duration // for handlers at the end of the route

	// Requeue requeues the message with a context, whose handler did not finish in time.
	Requeue func(context.Context)

	// Stop is called before the end of the route waits for handlers. Nil: no call.
	Stop func()

	// Record records that the route was paused or resumed. Probes do not wait for it, and
	// Close does.
	Record func(ctx context.Context, action schemas.Action, since time.Time, why schemas.Failure)
	Paused prometheus.Gauge // 1 while the breaker is open

	// Held reports whether an operator has paused the route, and returns a channel that is
	// closed when that changes. The route then consumes nothing, not even probes, and its
	// breaker stays as it is. Nil: it cannot be held.
	Held func() (held bool, changed <-chan struct{})

	Logger *slog.Logger
}

// NewSubscriber returns a subscriber that delivers the messages of a route as its breaker
// allows.
func NewSubscriber(route Route, b *Breaker) *Subscriber {
	if route.Held == nil {
		route.Held = func() (bool, <-chan struct{}) { return false, nil }
	}
	return &Subscriber{
		route: route, breaker: b,
		out: make(chan *message.Message), delivered: map[*message.Message]*delivery{},
		slots: make(chan struct{}, route.Concurrency), hungProbes: make(chan struct{}, route.Concurrency),
		recoverySlots: make(chan struct{}, min(route.Concurrency, max(b.cfg.Messages, 1))),
	}
}

// Subscribe is called once. It waits for the broker as long as ctx allows.
func (s *Subscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	var first *consumption
	if held, _ := s.route.Held(); !held {
		var err error
		if first, err = s.consume(ctx, s.route.Concurrent); err != nil {
			return nil, err
		}
	}
	s.running.Go(func() { s.run(ctx, first) })
	return s.out, nil
}

// Close returns when the subscription, whose context has ended, is over.
func (s *Subscriber) Close() error {
	s.running.Wait()
	return nil
}

// run delivers messages until ctx ends.
func (s *Subscriber) run(ctx context.Context, c *consumption) {
	defer close(s.out)
	defer s.end()
	for ctx.Err() == nil {
		if c != nil {
			s.deliverAll(c)
		}
		s.awaitRelease(ctx)
		s.probe(ctx)
		c = s.resume(ctx)
	}
	c.end()
}

// awaitRelease waits while an operator has paused the route.
func (s *Subscriber) awaitRelease(ctx context.Context) {
	for {
		held, changed := s.route.Held()
		if !held {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// untilHeld returns a context that ends when an operator pauses the route.
func (s *Subscriber) untilHeld(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	held, changed := s.route.Held()
	if held {
		cancel()
		return ctx, cancel
	}
	s.running.Go(func() {
		defer cancel()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

// resume consumes after a pause, or after the consumption has ended by itself. It
// returns nil if that fails, or an operator has paused the route.
func (s *Subscriber) resume(ctx context.Context) *consumption {
	if held, _ := s.route.Held(); held {
		return nil
	}
	c, err := s.consume(ctx, s.route.Concurrent)
	if err != nil {
		_ = backoff.Sleep(ctx, s.breaker.cfg.First)
		return nil
	}
	return c
}

// deliverAll delivers messages until the breaker opens, an operator pauses the route or
// the consumption ends.
func (s *Subscriber) deliverAll(c *consumption) {
	defer c.stop()
	for {
		open, recovering, changed := s.breaker.state()
		held, heldChanged := s.route.Held()
		if open || held {
			return
		}
		slots := []chan struct{}{s.slots}
		if recovering {
			slots = append(slots, s.recoverySlots)
		}
		if !s.deliverNext(c, changed, heldChanged, slots...) {
			return
		}
	}
}

// deliverNext delivers a message once a slot is free; it returns false when the
// consumption ends. If the breaker changes or the route is paused before, the message stays
// with the broker.
func (s *Subscriber) deliverNext(c *consumption, changed, heldChanged <-chan struct{}, slots ...chan struct{}) bool {
	for i, slot := range slots {
		select {
		case slot <- struct{}{}:
			continue
		case <-changed:
		case <-heldChanged:
		case <-c.ctx.Done():
		}
		release(slots[:i])
		return c.ctx.Err() == nil
	}
	select {
	case msg, ok := <-c.messages:
		if ok {
			s.deliver(msg, func() { release(slots) })
			return true
		}
	case <-changed:
		release(slots)
		return true
	case <-heldChanged:
		release(slots)
		return true
	case <-c.ctx.Done():
	}
	release(slots)
	return false
}

func release(slots []chan struct{}) {
	for _, slot := range slots {
		<-slot
	}
}

// deliver passes a message to the router. Settled calls done.
func (s *Subscriber) deliver(msg *message.Message, done func()) {
	s.handlers.Add(1)
	s.mu.Lock()
	s.delivered[msg] = &delivery{msg.Context(), done}
	s.mu.Unlock()
	s.out <- msg
}

// Settled is called when a message is acked or requeued, whether it was delivered or not.
func (s *Subscriber) Settled(msg *message.Message) {
	s.mu.Lock()
	delivered, found := s.delivered[msg]
	delete(s.delivered, msg)
	s.mu.Unlock()
	if found {
		delivered.done()
		s.handlers.Done()
	}
}

// requeueAll requeues the messages whose handlers did not finish in time.
func (s *Subscriber) requeueAll() {
	s.mu.Lock()
	left := slices.Collect(maps.Values(s.delivered))
	s.mu.Unlock()
	for _, delivered := range left {
		s.route.Requeue(delivered.ctx)
	}
}

// probe sends probes until the breaker closes, ctx ends or an operator pauses the route.
func (s *Subscriber) probe(ctx context.Context) {
	open, _, closed := s.breaker.state()
	if !open {
		return
	}
	since, why := s.breaker.Outage()
	s.route.Paused.Set(1)
	s.route.Logger.Warn("route paused: its messages fail one after the other", "queue", s.route.Queue, "error", why.Message)
	s.record(ctx, schemas.Paused, since, why)
	probing, stop := s.untilHeld(ctx)
	s.probeRounds(probing, since, closed)
	stop()
	if open, _, _ := s.breaker.state(); open && ctx.Err() == nil {
		return // an operator has paused the route
	}
	s.route.Paused.Set(0)
	if ctx.Err() == nil {
		s.route.Logger.Info("route resumed", "queue", s.route.Queue, "paused", s.breaker.now().Sub(since).Round(time.Millisecond))
		s.record(ctx, schemas.Resumed, since, schemas.Failure{})
	}
}

func (s *Subscriber) probeRounds(ctx context.Context, since time.Time, closed <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.running.Go(func() {
		defer cancel()
		select {
		case <-closed:
		case <-ctx.Done():
		}
	})
	s.running.Go(func() { s.repeatPaused(ctx, since) })
	for backoff.Sleep(ctx, s.breaker.Pause()) == nil && s.probeRound(ctx) {
		s.breaker.RoundFailed()
	}
}

// repeatPaused records that the route is still paused, until ctx ends.
func (s *Subscriber) repeatPaused(ctx context.Context, since time.Time) {
	for backoff.Sleep(ctx, PausedEvery) == nil {
		if opened, why := s.breaker.Outage(); !opened.IsZero() {
			s.record(ctx, schemas.Paused, since, why)
		}
	}
}

// PausedEvery is how often a route that stays paused has a `paused` event, so that the
// newest event reports whether the route is still paused.
const PausedEvery = 10 * time.Minute

func (s *Subscriber) record(ctx context.Context, action schemas.Action, since time.Time, why schemas.Failure) {
	s.running.Go(func() { s.route.Record(ctx, action, since, why) })
}

// probeRound tries messages one after the other; it returns false when the breaker has
// closed or ctx ends. It waits as long as the queue is empty.
func (s *Subscriber) probeRound(ctx context.Context) bool {
	var c *consumption
	defer func() { c.end() }()
	for tried := 0; tried < s.breaker.Probes(); tried++ {
		if open, _, _ := s.breaker.state(); !open {
			return false
		}
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return false
		}
		if c == nil {
			c, _ = s.consume(ctx, s.route.Single) // a broker that is unavailable has no messages
		}
		msg, ok := c.next(ctx)
		if !ok {
			<-s.slots
			return ctx.Err() == nil
		}
		if !s.probeOne(ctx, msg) {
			c.end()
			c = nil
		}
	}
	return ctx.Err() == nil
}

// probeOne delivers a message that has a slot, and waits until it is acked or nacked; it
// returns false on a time-out. A handler that runs longer releases its slot, as long as
// there are not too many of them.
func (s *Subscriber) probeOne(ctx context.Context, msg *message.Message) bool {
	release := sync.OnceFunc(func() { <-s.slots })
	settled := make(chan struct{})
	s.deliver(msg, func() {
		release()
		close(settled)
	})
	timer := time.NewTimer(s.probeTimeout())
	defer timer.Stop()
	select {
	case <-settled:
		return true
	case <-ctx.Done():
		return true
	case <-timer.C:
	}
	if s.route.HandlerTimeout > 0 {
		select {
		case s.hungProbes <- struct{}{}:
			release()
			s.handlers.Go(func() {
				<-settled
				<-s.hungProbes
			})
		default:
		}
	}
	return false
}

func (s *Subscriber) probeTimeout() time.Duration {
	if s.route.HandlerTimeout > 0 {
		return s.route.HandlerTimeout
	}
	return s.breaker.cfg.Cap
}

// end waits for handlers, at most for the stop timeout, and for the acknowledgements.
func (s *Subscriber) end() {
	if s.route.Stop != nil {
		s.route.Stop()
	}
	timer := time.AfterFunc(s.route.StopTimeout, func() {
		s.route.Logger.Error("handlers did not finish in time; their messages are requeued",
			"queue", s.route.Queue, "timeout", s.route.StopTimeout)
		s.requeueAll()
	})
	s.handlers.Wait()
	timer.Stop()
	_ = s.route.Concurrent.Close() // these share their connection, so that closing cannot fail
	_ = s.route.Single.Close()
}

// consumption is one consumer, from its start to its cancellation.
type consumption struct {
	messages <-chan *message.Message
	ctx      context.Context
	stop     context.CancelFunc
}

func (s *Subscriber) consume(ctx context.Context, from message.Subscriber) (*consumption, error) {
	c := &consumption{}
	c.ctx, c.stop = context.WithCancel(ctx)
	var err error
	if c.messages, err = from.Subscribe(c.ctx, s.route.Queue); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

// next waits for a message; it returns none if c is nil.
func (c *consumption) next(ctx context.Context) (*message.Message, bool) {
	if c == nil {
		return nil, false
	}
	select {
	case msg, ok := <-c.messages:
		return msg, ok
	case <-ctx.Done():
		return nil, false
	}
}

func (c *consumption) end() {
	if c != nil {
		c.stop()
	}
}

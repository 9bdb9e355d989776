package pipeline

import (
	"context"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// routeSubscriber is the subscriber of a route. While the route's breaker is closed it
// delivers as many messages at once as the route handles. While the breaker is open it
// consumes probes only: after each pause single messages, one after the other, until a
// handler succeeds. Running handlers and other routes are not affected.
//
// At most the few messages that were prefetched when the consumer stopped are requeued;
// RabbitMQ puts them at the head of the queue and delivers them next, so that this does
// not count up to a delivery limit.
type routeSubscriber struct {
	*messageFlow
	route              Route
	breaker            *breaker
	concurrent, single message.Subscriber // with the concurrency of the route, and with 1
	stopTimeout        time.Duration
	paused             prometheus.Gauge // 1 while the breaker is open

	out           chan *message.Message
	slots         chan struct{} // a token for each message that a handler has
	recoverySlots chan struct{} // a token for each message of a handler while the route recovers
	hungProbes    chan struct{} // a token for each probe that runs longer than its time-out, without a slot
	handlers      sync.WaitGroup
	expired       chan struct{} // closed when the stop timeout has passed
	running       sync.WaitGroup
}

// noTimeout is the stop timeout of the transport's subscribers: a breaker that opens
// waits for no handler, and routeSubscriber.end bounds the end of the route.
const noTimeout = 10 * 365 * 24 * time.Hour

func newRouteSubscriber(s *messageFlow, route Route, b *breaker, concurrent, single message.Subscriber, stopTimeout time.Duration) *routeSubscriber {
	return &routeSubscriber{
		messageFlow: s, route: route, breaker: b, concurrent: concurrent, single: single, stopTimeout: stopTimeout,
		paused: s.metrics.paused.WithLabelValues(route.Queue),
		out:    make(chan *message.Message), expired: make(chan struct{}),
		slots: make(chan struct{}, route.Concurrency), hungProbes: make(chan struct{}, route.Concurrency),
		recoverySlots: make(chan struct{}, min(route.Concurrency, max(b.cfg.Messages, 1))),
	}
}

// Subscribe is called once. It waits for the broker as long as ctx allows.
func (s *routeSubscriber) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	first, err := s.consume(ctx, s.concurrent)
	if err != nil {
		return nil, err
	}
	s.running.Go(func() { s.run(ctx, first) })
	return s.out, nil
}

// Close returns when the subscription, whose context has ended, is over.
func (s *routeSubscriber) Close() error {
	s.running.Wait()
	return nil
}

// run hands out messages until ctx ends.
func (s *routeSubscriber) run(ctx context.Context, c *consumption) {
	defer close(s.out)
	defer s.end()
	for ctx.Err() == nil {
		if c != nil {
			s.deliverAll(c)
		}
		s.probe(ctx)
		c = s.resume(ctx)
	}
	c.end()
}

// resume consumes after a pause, or after the consumption has ended by itself. It
// returns nil if that fails.
func (s *routeSubscriber) resume(ctx context.Context) *consumption {
	c, err := s.consume(ctx, s.concurrent)
	if err != nil {
		_ = sleep(ctx, s.breaker.cfg.First)
		return nil
	}
	return c
}

// deliverAll delivers messages until the breaker opens or the consumption ends.
func (s *routeSubscriber) deliverAll(c *consumption) {
	defer c.stop()
	for {
		open, recoverySlots, changed := s.breaker.state()
		if open {
			return
		}
		slots := []chan struct{}{s.slots}
		if recoverySlots {
			slots = append(slots, s.recoverySlots)
		}
		if !s.deliverNext(c, changed, slots...) {
			return
		}
	}
}

// deliverNext delivers a message once a slot is free; it returns false when the
// consumption ends. If the breaker changes before, the message stays with the broker.
func (s *routeSubscriber) deliverNext(c *consumption, changed <-chan struct{}, slots ...chan struct{}) bool {
	for i, place := range slots {
		select {
		case place <- struct{}{}:
			continue
		case <-changed:
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
	case <-c.ctx.Done():
	}
	release(slots)
	return false
}

func release(slots []chan struct{}) {
	for _, place := range slots {
		<-place
	}
}

// deliver passes a message to the router, and calls done once it is acked or nacked.
// The returned channel is closed then.
func (s *routeSubscriber) deliver(msg *message.Message, done func()) (settled <-chan struct{}) {
	closed := make(chan struct{})
	s.handlers.Go(func() {
		defer close(closed)
		defer done()
		select {
		case <-msg.Acked():
		case <-msg.Nacked():
		case <-s.expired:
			msg.Nack()
		}
	})
	s.out <- msg
	return closed
}

// probe sends probes until the breaker closes or ctx ends.
func (s *routeSubscriber) probe(ctx context.Context) {
	open, _, closed := s.breaker.state()
	if !open {
		return
	}
	since, why := s.breaker.outage()
	s.paused.Set(1)
	s.logger.Warn("route paused: its messages fail one after the other", "queue", s.route.Queue, "error", why.Message)
	s.record(ctx, schemas.Paused, since, why)
	s.probeRounds(ctx, since, closed)
	s.paused.Set(0)
	if ctx.Err() == nil {
		s.logger.Info("route resumed", "queue", s.route.Queue, "paused", s.now().Sub(since).Round(time.Millisecond))
		s.record(ctx, schemas.Resumed, since, schemas.Failure{})
	}
}

func (s *routeSubscriber) probeRounds(ctx context.Context, since time.Time, closed <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.running.Go(func() {
		defer cancel()
		select {
		case <-closed:
		case <-ctx.Done():
		}
	})
	recorded := since
	for sleep(ctx, s.breaker.pause()) && s.probeRound(ctx) {
		s.breaker.roundFailed()
		if now := s.now(); now.Sub(recorded) >= PausedEvery {
			_, why := s.breaker.outage()
			s.record(ctx, schemas.Paused, since, why)
			recorded = now
		}
	}
}

// PausedEvery is about how often a route that stays paused has a `paused` event, so
// that the newest event tells whether the route is still paused.
const PausedEvery = 10 * time.Minute

// recordTimeout bounds the publish of a route's event. The log has it, too.
const recordTimeout = 10 * time.Second

// record publishes an event of the route. Probes do not wait for it.
func (s *routeSubscriber) record(ctx context.Context, action schemas.Action, since time.Time, why schemas.Failure) {
	none := schemas.Envelope{}
	state := schemas.State{
		Fingerprint: none.Fingerprint(), EventID: s.newID(), Queue: s.route.Queue, Time: s.now(), FirstFailed: since, Failure: why,
	}
	if action == schemas.Resumed {
		state.Duration = state.Time.Sub(since)
	}
	m := rabbit.Message{Exchange: s.topology.Events(), RoutingKey: string(action), Publishing: s.frameMax().Wrap(none, state)}
	s.running.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, recordTimeout)
		defer cancel()
		if err := s.publisher.Publish(ctx, m); err != nil && ctx.Err() == nil {
			s.logger.Warn("cannot publish the event of a paused or resumed route", "queue", s.route.Queue, "error", err)
		}
	})
}

// probeRound tries messages one after the other; it returns false when ctx ends. It
// waits as long as the queue is empty.
func (s *routeSubscriber) probeRound(ctx context.Context) bool {
	var c *consumption
	defer func() { c.end() }()
	for tried := 0; tried < s.breaker.probes(); tried++ {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return false
		}
		if c == nil {
			c, _ = s.consume(ctx, s.single) // a broker that is away has no messages
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
func (s *routeSubscriber) probeOne(ctx context.Context, msg *message.Message) bool {
	release := sync.OnceFunc(func() { <-s.slots })
	settled := s.deliver(msg, release)
	timer := time.NewTimer(s.probeTimeout())
	defer timer.Stop()
	select {
	case <-settled:
		return true
	case <-ctx.Done():
		return true
	case <-timer.C:
	}
	if s.route.Timeout > 0 {
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

func (s *routeSubscriber) probeTimeout() time.Duration {
	if s.route.Timeout > 0 {
		return s.route.Timeout + hangGrace
	}
	return s.breaker.cfg.Cap
}

// end waits for handlers, at most for the stop timeout, and for the acknowledgements.
func (s *routeSubscriber) end() {
	timer := time.AfterFunc(s.stopTimeout, func() {
		s.logger.Error("handlers did not finish in time; their messages go back to the queue",
			"queue", s.route.Queue, "timeout", s.stopTimeout)
		close(s.expired)
	})
	s.handlers.Wait()
	timer.Stop()
	_ = s.concurrent.Close() // these have no connection of their own to fail on
	_ = s.single.Close()
}

// consumption is one consumer, from its start to its cancellation.
type consumption struct {
	messages <-chan *message.Message
	ctx      context.Context
	stop     context.CancelFunc
}

func (s *routeSubscriber) consume(ctx context.Context, from message.Subscriber) (*consumption, error) {
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

// sleep returns false when ctx ends before d is over.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

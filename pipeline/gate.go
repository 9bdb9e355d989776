package pipeline

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
)

// gate is the subscriber of a route. Open, it consumes as many messages at once
// as the route handles. When a handler says that what it needs is away, the gate
// closes: the consumer stops, and after a pause one message is let through, then
// another after a longer pause, until one finds the service back. Messages that
// are handled meanwhile are not hurried, and no other route notices.
//
// At most the few messages that were on their way when the consumer stopped go
// back to the queue; they are at its head and the next to be handled, so this
// does not count up to a delivery limit.
type gate struct {
	queue       string
	all, one    message.Subscriber // as many at once as the route handles, and a single one
	probe       Probe
	stopTimeout time.Duration
	logger      *slog.Logger
	paused      prometheus.Gauge // 1 while the gate is closed

	out     chan *message.Message
	handed  sync.WaitGroup // one for each message that is not settled
	expired chan struct{}  // closed: wait for no handler any more
	running sync.WaitGroup
}

// unhurried is the stop timeout of a route's subscribers: a gate that closes
// waits for nobody, and the end of the route is the gate's own to bound.
const unhurried = 10 * 365 * 24 * time.Hour

func newGate(queue string, all, one message.Subscriber, cfg Config, paused prometheus.Gauge) *gate {
	return &gate{
		queue: queue, all: all, one: one, probe: cfg.Probe, stopTimeout: cfg.StopTimeout, logger: cfg.Logger,
		out: make(chan *message.Message), expired: make(chan struct{}), paused: paused,
	}
}

// Subscribe is called once. It waits for the broker as long as ctx allows.
func (g *gate) Subscribe(ctx context.Context, _ string) (<-chan *message.Message, error) {
	first, err := g.begin(ctx, g.all)
	if err != nil {
		return nil, err
	}
	g.running.Go(func() { g.run(ctx, first) })
	return g.out, nil
}

// Close returns when the subscription, whose context has ended, is over.
func (g *gate) Close() error {
	g.running.Wait()
	return nil
}

// run passes messages on, and probes whenever one found the service away.
func (g *gate) run(ctx context.Context, open *period) {
	defer close(g.out)
	defer g.end()
	for g.passAll(ctx, open); ctx.Err() == nil; g.passAll(ctx, open) {
		since := time.Now()
		g.paused.Set(1)
		g.logger.Warn("route paused: what its handler needs is away", "queue", g.queue, "error", open.why())
		if open = g.reopen(ctx); open == nil {
			return
		}
		g.paused.Set(0)
		g.logger.Info("route resumed", "queue", g.queue, "paused", time.Since(since).Round(time.Millisecond))
	}
}

// passAll hands out messages until the period ends.
func (g *gate) passAll(ctx context.Context, p *period) {
	for {
		select {
		case msg, ok := <-p.messages:
			if !ok {
				return
			}
			g.pass(p, msg)
		case <-p.ctx.Done():
			return
		}
	}
}

// reopen probes until the service is back, then consumes again; nil when ctx
// ends before.
func (g *gate) reopen(ctx context.Context) *period {
	for pause := g.probe.First; sleep(ctx, pause); pause = min(2*pause, g.probe.Cap) {
		if !g.letOne(ctx) {
			continue
		}
		if open, err := g.begin(ctx, g.all); err == nil {
			return open
		}
	}
	return nil
}

// letOne lets one message through and says whether it found the service there.
// It waits for a message as long as the queue has none.
func (g *gate) letOne(ctx context.Context) bool {
	p, err := g.begin(ctx, g.one)
	if err != nil {
		return false
	}
	defer p.stop()
	select {
	case msg, ok := <-p.messages:
		if !ok {
			return false
		}
		p.stop() // before it is settled, so that no second one comes
		return g.pass(p, msg).settled(ctx) && !p.away()
	case <-ctx.Done():
		return false
	}
}

// pass hands a message to the router.
func (g *gate) pass(p *period, msg *message.Message) handedOut {
	msg.SetContext(context.WithValue(msg.Context(), periodKey{}, p))
	g.handed.Go(func() {
		select {
		case <-msg.Acked():
		case <-msg.Nacked():
		case <-g.expired:
			msg.Nack()
		}
	})
	g.out <- msg
	return handedOut{msg}
}

// end waits for handlers, at most for the stop timeout, and for the acknowledgements.
func (g *gate) end() {
	timer := time.AfterFunc(g.stopTimeout, func() {
		g.logger.Error("handlers did not finish in time; their messages go back to the queue",
			"queue", g.queue, "timeout", g.stopTimeout)
		close(g.expired)
	})
	g.handed.Wait()
	timer.Stop()
	_ = g.all.Close() // these have no connection of their own to fail on
	_ = g.one.Close()
}

// period is one time of consuming.
type period struct {
	messages <-chan *message.Message
	ctx      context.Context
	stop     context.CancelFunc
	reason   atomic.Pointer[error] // that a handler found the service away
}

type periodKey struct{}

func (g *gate) begin(ctx context.Context, from message.Subscriber) (*period, error) {
	p := &period{}
	p.ctx, p.stop = context.WithCancel(ctx)
	var err error
	if p.messages, err = from.Subscribe(p.ctx, g.queue); err != nil {
		p.stop()
	}
	return p, err
}

// closeGate stops the consumer that handed out the message of ctx.
func closeGate(ctx context.Context, why error) {
	if p, ok := ctx.Value(periodKey{}).(*period); ok {
		p.reason.CompareAndSwap(nil, &why)
		p.stop()
	}
}

func (p *period) away() bool { return p.reason.Load() != nil }

func (p *period) why() error {
	if why := p.reason.Load(); why != nil {
		return *why
	}
	return nil
}

// handedOut is a message that a handler has.
type handedOut struct{ msg *message.Message }

// settled waits until the message is, and says whether it was acknowledged.
func (h handedOut) settled(ctx context.Context) bool {
	select {
	case <-h.msg.Acked():
		return true
	case <-h.msg.Nacked():
	case <-ctx.Done():
	}
	return false
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

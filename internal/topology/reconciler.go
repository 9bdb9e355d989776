package topology

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire"
)

// Reconciler declares a topology and reconciles it while messages flow: it declares
// deleted exchanges, queues and bindings again, and adds delay queues and bindings when
// they are needed.
type Reconciler struct {
	Conn   *rabbit.Connection
	Config Config

	// Latest replaces Config while the Reconciler is in use, once it holds a configuration.
	// Nil: Config stays.
	Latest *atomic.Pointer[Config]

	// SelfBindings is shared by copies of the Reconciler. Nil: each operation asks the broker
	// which bindings the exchanges of Watership lack.
	SelfBindings *SelfBindings

	// Turns has room for one value, and lets copies of the Reconciler declare queues one after the
	// other. Nil: there is one that does.
	Turns chan struct{}

	// Lost records that a queue of Watership was deleted with its messages, once that is declared again:
	// while processes run, or before (see Migration.Restore). It may not repair the topology. Nil: nothing
	// is recorded.
	Lost func(ctx context.Context, queue string) error

	Logger *slog.Logger  // logs repairs; nil: no log
	Every  time.Duration // about how often Reconcile checks; zero: 30 s

	// RouteWait is the time for a service to declare its deleted queue again.
	// Zero: 10 s.
	RouteWait time.Duration
}

func (r Reconciler) config() Config {
	if r.Latest != nil {
		if latest := r.Latest.Load(); latest != nil {
			return *latest
		}
	}
	return r.Config
}

const (
	rebuildTimeout   = 30 * time.Second
	defaultRouteWait = 10 * time.Second
	lostTimeout      = 3 * time.Second // after which only the log has a loss
)

// Declare declares the topology. If the management API does not answer, the keys of
// direct exchanges are left to Reconcile and logged: existing bindings stay, and messages
// do not wait for the management API.
func (r Reconciler) Declare(ctx context.Context) error {
	err := r.declarer(ctx).declare(r.config())
	if errors.Is(err, rabbit.ErrNoAnswer) && ctx.Err() == nil {
		r.logger().Error("the topology is not as configured; trying again", "error", err)
		return nil
	}
	return err
}

// DeclareDelay declares the delay queue of d, in whole milliseconds.
func (r Reconciler) DeclareDelay(ctx context.Context, d time.Duration) error {
	cfg, by, name := r.config(), r.declarer(ctx), wire.DelaysOf(r.config().Topology).Queue(d)
	if err := by.queues(cfg, queue{name, cfg.delayArgs(d.Milliseconds())}); err != nil {
		return err
	}
	return by.bind(cfg.directBinding(name))
}

// BindDirect binds the queue of a route to the direct exchange, which routes by queue
// names. It fails as BindReturn does.
func (r Reconciler) BindDirect(ctx context.Context, queue string) error {
	return r.bindForDelivery(ctx, r.config().direct(), queue, queue, nil)
}

// BindReturn binds a queue of another service to the return exchange, which routes by
// the header with the queue's name. It fails with a *rabbit.RefusedError of code 404 if
// the queue does not exist.
func (r Reconciler) BindReturn(ctx context.Context, queue string) error {
	return r.bindForDelivery(ctx, r.config().returnExchange(), queue, "", wire.ReturnArguments(queue))
}

func (r Reconciler) bindForDelivery(ctx context.Context, to exchange, queue, key string, args amqp.Table) error {
	if err := rabbit.CheckName(queue); err != nil {
		return &rabbit.RefusedError{Exchange: to.name, Code: amqp.SyntaxError, Reason: "no queue has " + err.Error()}
	}
	// Otherwise the 404 of a deleted exchange would look like the queue's.
	if err := (repair{r}).exchange(ctx, to); err != nil {
		return err
	}
	err := r.Conn.Do(ctx, func(ch *amqp.Channel) error { return ch.QueueBind(queue, key, to.name, false, args) })
	var broker *amqp.Error
	if errors.As(err, &broker) && broker.Server {
		return &rabbit.RefusedError{Exchange: to.name, Code: broker.Code, Reason: broker.Reason}
	}
	return err
}

// QueueExists reports whether a queue exists.
func (r Reconciler) QueueExists(ctx context.Context, queue string) (bool, error) {
	if rabbit.CheckName(queue) != nil {
		return false, nil
	}
	return r.declarer(ctx).queueExists(queue)
}

// PrepareQueue declares one queue with its bindings for its consumer, and the queue of places of an
// ordered route. The deleted queue of a route is declared by its service, with its own arguments, as in
// deploys; it is declared here only if it does not exist after RouteWait.
func (r Reconciler) PrepareQueue(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, rebuildTimeout+r.routeWait())
	defer cancel()
	route, found := r.routeOf(name)
	if !found {
		return r.prepareOwn(ctx, name)
	}
	if route.Ordered { // its consumer reads the places first
		if err := r.prepareOwn(ctx, r.config().Places(name)); err != nil {
			return err
		}
	}
	there, err := r.awaitQueue(ctx, name)
	switch {
	case err != nil:
		return err
	case there:
		return r.bindRoute(ctx, route)
	}
	r.logger().Warn("the queue of a route was not declared again; declaring it, without the arguments that it may have had", "queue", name)
	return r.declareRoute(ctx, route)
}

// prepareOwn declares one of Watership's queues if it was deleted, with its bindings.
func (r Reconciler) prepareOwn(ctx context.Context, name string) error {
	q, found := r.config().queueNamed(name)
	if !found {
		return fmt.Errorf("queue %q is not of this topology", name)
	}
	if err := (repair{r}).queue(ctx, q); err != nil {
		return err
	}
	return repair{r}.bind(ctx, name)
}

// DeclareParking declares a queue for parked copies, which other processes may have
// configured, with its binding to the direct exchange.
func (r Reconciler) DeclareParking(ctx context.Context, queue string) error {
	if err := rabbit.CheckName(queue); err != nil {
		return fmt.Errorf("the parking queue has %w", err)
	}
	return r.declareRoute(ctx, Route{Queue: queue})
}

func (r Reconciler) routeOf(queue string) (Route, bool) {
	i := slices.IndexFunc(r.config().Routes, func(route Route) bool { return route.Queue == queue })
	if i < 0 {
		return Route{}, false
	}
	return r.config().Routes[i], true
}

func (r Reconciler) routeWait() time.Duration {
	if r.RouteWait <= 0 {
		return defaultRouteWait
	}
	return r.RouteWait
}

// awaitQueue waits until a queue exists, at most for RouteWait, and reports whether it does.
func (r Reconciler) awaitQueue(ctx context.Context, name string) (there bool, err error) {
	there, err = r.QueueExists(ctx, name)
	if there || err != nil {
		return there, err
	}
	r.logger().Warn("the queue of a route was deleted; waiting for its service to declare it", "queue", name, "wait", r.routeWait())
	pause := time.NewTicker(min(r.routeWait(), time.Second) / 4)
	defer pause.Stop()
	for end := time.Now().Add(r.routeWait()); !there && err == nil && time.Now().Before(end); {
		<-pause.C
		there, err = r.QueueExists(ctx, name)
	}
	return there, err
}

func (r Reconciler) declareRoute(ctx context.Context, route Route) error {
	if err := r.declarer(ctx).routeQueue(route.Queue, r.config().routeArgs(route)); err != nil {
		return err
	}
	return r.bindRoute(ctx, route)
}

// bindRoute binds a route's queue. A missing exchange does not keep the queue from being
// consumed; Reconcile binds it when the exchange exists again.
func (r Reconciler) bindRoute(ctx context.Context, route Route) error {
	for _, b := range r.config().bindingsOf(route) {
		if err := r.declarer(ctx).bind(b); err != nil && !rabbit.IsMissing(err) {
			return err
		}
	}
	return nil
}

func (r Reconciler) declarer(ctx context.Context) declarer {
	self := r.SelfBindings
	if self == nil {
		self = &SelfBindings{}
	}
	return declarer{ctx, r.Conn, self, r.Turns}
}

package transport

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// LiveTopology declares a topology and reconciles it while messages flow: it declares
// deleted exchanges, queues and bindings again, and adds delay queues and bindings when
// they are needed. It is a watermill-amqp TopologyBuilder whose topics are queue names.
type LiveTopology struct {
	Conn   *rabbit.Connection
	Config TopologyConfig

	Logger *slog.Logger  // logs repairs; nil: no log
	Every  time.Duration // about how often Reconcile checks; zero: 30 s

	// RouteWait is the time for a service to declare its deleted queue again.
	// Zero: 10 s.
	RouteWait time.Duration
}

var _ wamqp.TopologyBuilder = LiveTopology{}

const (
	rebuildTimeout   = 30 * time.Second
	defaultRouteWait = 10 * time.Second
)

// Declare declares the topology. If the management API does not answer, the keys of
// direct exchanges are left to Reconcile and logged: existing bindings stay, and messages
// do not wait for the management API.
func (l LiveTopology) Declare(ctx context.Context) error {
	err := Declare(ctx, l.Conn, l.Config)
	if errors.Is(err, rabbit.ErrNoAnswer) && ctx.Err() == nil {
		l.logger().Error("the topology is not as configured; trying again", "error", err)
		return nil
	}
	return err
}

// DeclareDelay declares the delay queue of d, in whole milliseconds.
func (l LiveTopology) DeclareDelay(ctx context.Context, d time.Duration) error {
	name := l.Config.Delay(d)
	if err := l.on(ctx).queue(queue{name, l.Config.delayArgs(d.Milliseconds())}); err != nil {
		return err
	}
	return l.on(ctx).bind(l.Config.directBinding(name))
}

// BindDirect binds the queue of a route to the direct exchange, which routes by queue
// names. It fails as BindReturn does.
func (l LiveTopology) BindDirect(ctx context.Context, queue string) error {
	return l.bindForDelivery(ctx, l.Config.direct(), queue, queue, nil)
}

// BindReturn binds a queue of another service to the return exchange, which routes by
// the header with the queue's name. It fails with a *rabbit.RefusedError of code 404 if
// the queue does not exist.
func (l LiveTopology) BindReturn(ctx context.Context, queue string) error {
	return l.bindForDelivery(ctx, l.Config.returnExchange(), queue, "", amqp.Table{"x-match": "all", schemas.HeaderQueue: queue})
}

func (l LiveTopology) bindForDelivery(ctx context.Context, to exchange, queue, key string, args amqp.Table) error {
	if err := rabbit.CheckName(queue); err != nil {
		return &rabbit.RefusedError{Exchange: to.name, Code: amqp.SyntaxError, Reason: "no queue has " + err.Error()}
	}
	// Otherwise the 404 of a deleted exchange would look like the queue's.
	if err := l.repairExchange(ctx, to); err != nil {
		return err
	}
	err := l.Conn.Do(ctx, func(ch *amqp.Channel) error { return ch.QueueBind(queue, key, to.name, false, args) })
	var broker *amqp.Error
	if errors.As(err, &broker) && broker.Server {
		return &rabbit.RefusedError{Exchange: to.name, Code: broker.Code, Reason: broker.Reason}
	}
	return err
}

// QueueExists reports whether a queue exists.
func (l LiveTopology) QueueExists(ctx context.Context, queue string) (bool, error) {
	if rabbit.CheckName(queue) != nil {
		return false, nil
	}
	return l.on(ctx).queueExists(queue)
}

// BuildTopology declares one queue with its bindings for its consumer. The deleted queue
// of a route is declared by its service, with its own arguments, as in deploys; it is
// declared here only if it does not exist after RouteWait.
func (l LiveTopology) BuildTopology(_ *amqp.Channel, name, _ string, _ wamqp.Config, _ watermill.LoggerAdapter) error {
	ctx, cancel := context.WithTimeout(context.Background(), rebuildTimeout+l.routeWait())
	defer cancel()
	for _, r := range l.Config.Routes {
		if r.Queue != name {
			continue
		}
		if there, err := l.awaitQueue(ctx, name); err != nil {
			return err
		} else if there {
			return l.bindRoute(ctx, r)
		}
		l.logger().Warn("the queue of a route was not declared again; declaring it, without the arguments that it may have had", "queue", name)
	}
	return l.DeclareQueue(ctx, name)
}

// DeclareQueue declares one queue of the topology with its bindings.
func (l LiveTopology) DeclareQueue(ctx context.Context, name string) error {
	for _, r := range l.Config.Routes {
		if r.Queue == name {
			return l.route(ctx, r)
		}
	}
	for _, q := range l.Config.queues() {
		if q.name == name {
			return l.ours(ctx, q)
		}
	}
	return fmt.Errorf("queue %q is not of this topology", name)
}

func (l LiveTopology) routeWait() time.Duration {
	if l.RouteWait <= 0 {
		return defaultRouteWait
	}
	return l.RouteWait
}

// awaitQueue waits until a queue exists, at most for RouteWait, and reports whether it does.
func (l LiveTopology) awaitQueue(ctx context.Context, name string) (there bool, err error) {
	there, err = l.QueueExists(ctx, name)
	if there || err != nil {
		return there, err
	}
	l.logger().Warn("the queue of a route was deleted; waiting for its service to declare it", "queue", name, "wait", l.routeWait())
	pause := time.NewTicker(min(l.routeWait(), time.Second) / 4)
	defer pause.Stop()
	for end := time.Now().Add(l.routeWait()); !there && err == nil && time.Now().Before(end); {
		<-pause.C
		there, err = l.QueueExists(ctx, name)
	}
	return there, err
}

func (l LiveTopology) route(ctx context.Context, r Route) error {
	if err := l.on(ctx).routeQueue(r.Queue, l.Config.args(nil)); err != nil {
		return err
	}
	return l.bindRoute(ctx, r)
}

// bindRoute binds a route's queue. A missing exchange does not keep the queue from being
// consumed; Reconcile binds it when the exchange exists again.
func (l LiveTopology) bindRoute(ctx context.Context, r Route) error {
	for _, b := range l.Config.bindingsOf(r) {
		if err := l.on(ctx).bind(b); err != nil && !isNotFound(err) {
			return err
		}
	}
	return nil
}

func (l LiveTopology) ours(ctx context.Context, q queue) error {
	if err := l.on(ctx).queue(q); err != nil {
		return err
	}
	for _, b := range l.Config.bindings() {
		if b.queue != q.name {
			continue
		}
		if err := l.on(ctx).bind(b); err != nil {
			return err
		}
	}
	return nil
}

// ExchangeDeclare does nothing: topics are names of queues.
func (l LiveTopology) ExchangeDeclare(*amqp.Channel, string, wamqp.Config) error { return nil }

func (l LiveTopology) on(ctx context.Context) declarer { return declarer{ctx: ctx, conn: l.Conn} }

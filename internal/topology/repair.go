package topology

import (
	"context"
	"errors"
	"fmt"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

// Repair declares missing exchanges, queues and bindings of Watership again, and binds
// taps and routes. Call it when the broker reports that an exchange of Watership does not
// exist (a *rabbit.RefusedError of code 404), before publishing again; SelfHealingPublisher
// does both. The exchanges and queues of services belong to them: a missing one is bound
// when it exists again.
func (r Reconciler) Repair(ctx context.Context) error {
	// One channel is enough as long as nothing is missing.
	err := r.Conn.Do(ctx, func(ch *amqp.Channel) error { return repair{r}.all(ch) })
	var broker *amqp.Error
	if errors.As(err, &broker) && broker.Server {
		err = repair{r}.each(ctx)
	}
	d := r.declarer(ctx)
	d.self.forget()
	return errors.Join(err, d.bindAllToThemselves(r.config()), repair{r}.discoveredTaps(ctx))
}

// repair is a repair by a Reconciler.
type repair struct{ by Reconciler }

// discoveredTaps binds direct exchanges by the keys that were bound since. A missing
// exchange is tapped when it exists again.
func (r repair) discoveredTaps(ctx context.Context) error {
	var errs []error
	for _, tap := range r.by.config().Tap {
		if tap.needsDiscovery() && ctx.Err() == nil {
			err := r.by.declarer(ctx).bindDiscovered(tap, r.by.config())
			if !errors.Is(err, rabbit.ErrNotFound) {
				errs = append(errs, ignoreNotFound(err))
			}
		}
	}
	return errors.Join(errs...)
}

// all checks Watership's exchanges and queues and declares all bindings; it
// stops at the first missing one, since the broker then closes the channel.
func (r repair) all(ch *amqp.Channel) error {
	c := r.by.config()
	for _, e := range c.exchanges() {
		if err := ch.ExchangeDeclarePassive(e.name, e.kind, true, false, e.internal, false, nil); err != nil {
			return fmt.Errorf("exchange %q: %w", e.name, err)
		}
	}
	for _, q := range c.queues() {
		if _, err := ch.QueueDeclarePassive(q.name, true, false, false, false, nil); err != nil {
			return fmt.Errorf("queue %q: %w", q.name, err)
		}
	}
	for _, b := range append(c.bindings(), c.routeBindings()...) {
		if err := ch.QueueBind(b.queue, b.key, b.exchange, false, nil); err != nil {
			return fmt.Errorf("bind queue %q to exchange %q: %w", b.queue, b.exchange, err)
		}
	}
	if err := c.bindDividing(ch); err != nil {
		return err
	}
	for _, tap := range c.Tap {
		for _, key := range tap.configuredKeys() {
			if err := ch.ExchangeBind(c.Topology.Tap(), key, tap.Exchange, false, tap.bindingArgs()); err != nil {
				return fmt.Errorf("tap exchange %q: %w", tap.Exchange, err)
			}
		}
	}
	return nil
}

// each continues after a failure.
func (r repair) each(ctx context.Context) error {
	c, d := r.by.config(), r.by.declarer(ctx)
	var errs []error
	for _, e := range c.exchanges() {
		errs = append(errs, r.exchange(ctx, e))
	}
	for _, q := range c.queues() {
		errs = append(errs, r.queue(ctx, q))
	}
	for _, b := range c.bindings() {
		errs = append(errs, d.bind(b))
	}
	errs = append(errs, d.do(c.bindDividing))
	for _, tap := range c.Tap {
		errs = append(errs, ignoreNotFound(d.bindKeys(tap, c.Topology.Tap(), tap.configuredKeys())))
	}
	for _, b := range c.routeBindings() {
		errs = append(errs, ignoreNotFound(d.bind(b)))
	}
	return errors.Join(errs...)
}

// exchange declares only a missing exchange: a check needs no configure permission.
func (r repair) exchange(ctx context.Context, e exchange) error {
	there, err := r.by.declarer(ctx).exchangeExists(e)
	if err != nil || there {
		return err
	}
	if err := r.by.declarer(ctx).ownExchange(e, r.by.config()); err != nil {
		return err
	}
	r.by.logger().Warn("declared a missing exchange of Watership again", "exchange", e.name)
	return nil
}

// queue declares a queue of Watership that was deleted, with its bindings, and records the loss once it
// is declared: a declaration that fails is tried again and again. The event needs the queue of events.
func (r repair) queue(ctx context.Context, q queue) error {
	c, d := r.by.config(), r.by.declarer(ctx)
	if there, err := d.queueExists(q.name); err != nil || there {
		return err
	}
	var unrecorded error
	if q.name != c.Log() {
		unrecorded = r.queueOfEvents(ctx)
	}
	err := d.alone(c, func() error { // so that one process records the loss
		if there, err := d.queueExists(q.name); err != nil || there {
			return err
		}
		if err := d.queue(q); err != nil {
			return err
		}
		r.by.logger().Warn("a queue of Watership was deleted, and is declared again; its messages are lost", "queue", q.name)
		if q.name == c.Log() {
			err := r.bind(ctx, q.name) // which the event needs
			r.lost(ctx, q.name)
			return err
		}
		var recording sync.WaitGroup // it takes up to lostTimeout, in which the queue already gets messages
		recording.Go(func() { r.lost(ctx, q.name) })
		defer recording.Wait()
		return r.bind(ctx, q.name)
	})
	return errors.Join(unrecorded, err)
}

// queueOfEvents makes sure that events reach their queue.
func (r repair) queueOfEvents(ctx context.Context) error {
	log, _ := r.by.config().queueNamed(r.by.config().Log())
	if err := r.queue(ctx, log); err != nil {
		return err
	}
	return r.bind(ctx, log.name)
}

// bind binds a queue of Watership. It declares exchanges that are missing.
func (r repair) bind(ctx context.Context, queue string) error {
	for _, b := range r.by.config().bindings() {
		if b.queue != queue {
			continue
		}
		if err := r.bindTo(ctx, b.exchange, func() error { return r.by.declarer(ctx).bind(b) }); err != nil {
			return err
		}
		if divides, _ := r.by.config().Partitions(); divides == b.exchange {
			return r.bindTo(ctx, r.by.config().Topology.Tap(), func() error { return r.by.declarer(ctx).do(r.by.config().bindDividing) })
		}
	}
	return nil
}

// bindTo calls bind, which binds to an exchange, and declares that if it is missing.
func (r repair) bindTo(ctx context.Context, name string, bind func() error) error {
	err := bind()
	if e, own := r.by.config().exchangeNamed(name); own && rabbit.IsMissing(err) {
		if err := r.exchange(ctx, e); err != nil {
			return err
		}
		err = bind()
	}
	return err
}

// lost records the loss of a queue. The queue is needed even if that fails.
func (r repair) lost(ctx context.Context, queue string) {
	if r.by.Lost == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lostTimeout)
	defer cancel()
	if err := r.by.Lost(ctx, queue); err != nil {
		r.by.logger().Error("the loss of a queue of Watership has no event", "queue", queue, "error", err)
	}
}

func ignoreNotFound(err error) error {
	if rabbit.IsMissing(err) {
		return nil
	}
	return err
}

func (c Config) routeBindings() (all []binding) {
	for _, r := range c.Routes {
		all = append(all, c.bindingsOf(r)...)
	}
	return all
}

// bindingsOf returns the bindings of a route's queue: to the direct exchange, which
// returns its messages, and the configured ones.
func (c Config) bindingsOf(r Route) []binding {
	all := []binding{c.directBinding(r.Queue)}
	for _, b := range r.Bind {
		all = append(all, binding{r.Queue, b.Exchange, b.Key})
	}
	return all
}

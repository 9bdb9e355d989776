package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/pipeline/internal/admission"
	"github.com/watershipmq/watership/pipeline/internal/admission/placelog"
	"github.com/watershipmq/watership/pipeline/internal/call"
	"github.com/watershipmq/watership/pipeline/internal/delivery"
	"github.com/watershipmq/watership/pipeline/internal/throttle"
	"github.com/watershipmq/watership/pipeline/transport"
)

const (
	roleConcurrency = 256 // messages that the handler of a role moves at once

	// routerCloseTimeout is the time for handlers that did not finish within StopTimeout,
	// once their contexts have ended.
	routerCloseTimeout = 5 * time.Second

	declareTimeout = 30 * time.Second

	queueShare = 16   // messages of one queue of a service that are unconfirmed at once
	delayShare = 4096 // messages of one delay queue, of all routes
)

// build adds the handlers of routes and roles to the router.
func (p *Pipeline) build() (err error) {
	logger := watermillLogger(p.cfg.Logger)
	if p.router, err = message.NewRouter(message.RouterConfig{CloseTimeout: routerCloseTimeout}, logger); err != nil {
		return fmt.Errorf("creating the router: %w", err)
	}
	p.handlers = call.NewSet(p.router, p.cfg.Logger)
	return p.addHandlers(logger)
}

// addHandlers adds the handlers of roles and routes that do not run.
func (p *Pipeline) addHandlers(logger watermill.LoggerAdapter) error {
	if err := p.addRoles(logger); err != nil {
		return err
	}
	for _, route := range p.cfg.Routes {
		if route.Handler == nil || p.handlers.Has(route.Queue) {
			continue
		}
		if err := p.addRoute(route, logger); err != nil {
			return err
		}
	}
	return nil
}

func watermillLogger(to *slog.Logger) watermill.LoggerAdapter {
	logger := watermill.NewSlogLogger(to)
	if !to.Enabled(context.Background(), watermill.LevelTrace) {
		logger = withoutTrace{logger}
	}
	return logger
}

// withoutTrace drops the router's logs of every message at the level trace: the adapter of
// slog would convert them first.
type withoutTrace struct{ watermill.LoggerAdapter }

func (withoutTrace) Trace(string, watermill.LogFields) {}

func (l withoutTrace) With(fields watermill.LogFields) watermill.LoggerAdapter {
	return withoutTrace{l.LoggerAdapter.With(fields)}
}

func (p *Pipeline) addRoles(logger watermill.LoggerAdapter) error {
	names := p.cfg.Topology
	dead, reports, due, poisoner := p.retrier(names.Retry()), p.retrier(names.Report()), p.retrier(names.Due()), &poisoner{p.messageFlow(names.Poison()), p.declareParking}
	poisoner.hook = nil // the process that gave the message up has called its own
	for _, one := range []struct {
		role Role
		queueHandler
	}{
		{RoleRetry, queueHandler{dead.messageFlow, dead.handleDead, handlerTries, dead.poisonDeadLetter}},
		{RoleRetry, queueHandler{reports.messageFlow, reports.handleReport, handlerTries, reports.poisonReport}},
		{RoleDue, queueHandler{due.messageFlow, due.handleDue, handlerTries, due.poisonDueMessage}},
		{RolePoison, queueHandler{poisoner.messageFlow, poisoner.handle, handlerTries, poisoner.moveToUnstorable}},
	} {
		if !p.cfg.has(one.role) || p.handlers.Has(one.queue) {
			continue
		}
		queue := one.queue
		subscriber, err := p.subscriber(role.Role(one.role), logger,
			delivery.OnState(p.consumptionOf(queue).report), transport.Concurrency(roleConcurrency), transport.MaxBytes(p.cfg.MaxBytes), transport.StopTimeout(p.cfg.StopTimeout))
		if err != nil {
			return fmt.Errorf("subscribing to queue %q: %w", queue, err)
		}
		p.handlers.Add(queue, subscriber, one.run)
	}
	return nil
}

func (p *Pipeline) retrier(queue string) *retrier {
	return &retrier{
		messageFlow: p.messageFlow(queue), routeOf: p.cfg.routeOf,
		labels: call.NewQueueLabels(p.cfg.queues(), p.reconciler.QueueExists), deathChecker: p.deathChecker, findDecision: p.cfg.Decisions, retried: p.cfg.RetriedDeaths,
		pause: p.cfg.ReturnPause, grace: p.cfg.ReturnGrace,
		delivery: topology.DirectDelivery{
			Topology: p.cfg.Topology, StateKeys: p.cfg.StateKeys, Publisher: p.queuePublisher, FrameMax: p.connections.frameMax, Binder: p.reconciler, Login: p.login,
		},
	}
}

func (p *Pipeline) addRoute(route Route, logger watermill.LoggerAdapter) error {
	for _, wrap := range slices.Backward(p.cfg.Middleware) {
		route.Handler = wrap(route.Handler)
	}
	rh := &routeHandler{messageFlow: p.messageFlow(route.Queue), route: route, outlet: p.exchangePublisher, onHang: p.cfg.OnHang}
	rh.admission = admission.New(p.admissionConfig(rh), p.admissions[route.Queue])
	p.admissions[route.Queue] = rh.admission
	p.pauses.SetKeys(route.Queue, rh.admission.Keys())
	options := append(rh.admission.Options(), delivery.OnState(p.consumptionOf(route.Queue).report))
	concurrent, err := p.subscriber(role.Routes, logger, append(options, transport.Concurrency(rh.admission.Capacity()), transport.MaxBytes(p.cfg.MaxBytes))...)
	if err != nil {
		return fmt.Errorf("subscribing to queue %q: %w", route.Queue, err)
	}
	single, err := p.subscriber(role.Routes, logger, append(options, transport.Concurrency(1))...)
	if err != nil {
		return fmt.Errorf("subscribing to queue %q: %w", route.Queue, err)
	}
	p.handlers.Add(route.Queue, rh.admission.Subscriber(concurrent, single), queueHandler{rh.messageFlow, rh.handle, 1, rh.poisonMessage}.run)
	return nil
}

// admissionConfig returns the configuration of the admission of a route.
func (p *Pipeline) admissionConfig(rh *routeHandler) admission.Config {
	queue, names := rh.route.Queue, p.cfg.Topology
	cfg := rh.admissionConfig()
	cfg.StopTimeout, cfg.Paused, cfg.Unknown = p.cfg.StopTimeout, p.pauses.Switch(queue), func() { wake(p.pausesWake) }
	if p.runningCalls[queue] == nil {
		p.runningCalls[queue] = cfg.Running
	}
	cfg.Running = p.runningCalls[queue]
	if cfg.Fairness.Ordered {
		cfg.Fairness.Places = &placelog.Config{
			Queue: names.Places(queue), Exchange: names.Direct(), Lock: names.Order(queue),
			Publisher: p.ownPublisher, Unordered: p.cfg.queueType(rh.route) != Classic,
		}
	}
	return cfg
}

// wake sends to a channel with room for one value, unless it has one.
func wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// subscriber returns a subscriber whose topics are names of queues, and whose consumers announce
// their role. Their priority is the default one of a queue, and refused by a stream, whose messages a
// route would skip while it does not run.
func (p *Pipeline) subscriber(r role.Role, logger watermill.LoggerAdapter, opts ...transport.Option) (*transport.Subscriber, error) {
	cfg := wamqp.Config{
		Consume:         wamqp.ConsumeConfig{Consumer: p.cfg.consumer(r).Tag(), Arguments: amqp.Table{"x-priority": int32(0)}},
		Marshaler:       transport.Marshaler{},
		Exchange:        wamqp.ExchangeConfig{GenerateName: func(string) string { return "" }},
		Queue:           wamqp.QueueConfig{GenerateName: wamqp.GenerateQueueNameTopicName},
		TopologyBuilder: queueBuilder{p.reconciler},
	}
	return transport.NewSubscriberWithConnection(cfg, logger, nil, append(opts, delivery.SettledByHandlers(), delivery.On(p.connections.consuming))...)
}

// messageFlow returns the operations for the handler of a queue.
func (p *Pipeline) messageFlow(queue string) *messageFlow {
	p.metrics.Held.WithLabelValues(queue) // so that the metric exists while no message is held
	return &messageFlow{
		queue: queue, topology: p.cfg.Topology, verifier: p.verifier, publisher: signingPublisher{p.ownPublisher, p.verifier}, frameMax: p.connections.frameMax, taps: p.reconciler.Config.Tap,
		delays: p.reconciler, permanent: slices.Sorted(slices.Values(p.cfg.Delays())),
		now: time.Now, sleep: backoff.Sleep, newID: watermill.NewULID, random: backoff.Random().Float64, logger: p.cfg.Logger,
		metrics: p.metrics, heldMessages: p.heldMessages, warnings: &throttle.Warnings{}, goroutines: &p.goroutines, queueLimiter: p.queueLimiter, delayLimiter: p.delayLimiter,
		tracer: p.tracer, hook: p.cfg.OnEvent, hookTimeout: p.cfg.OnEventTimeout, streams: p.cfg.Streams,
	}
}

// routeOf returns the route of a queue. The queue of another consumer, without a route,
// has the default policy and breaker.
func (c Config) routeOf(queue string) Route {
	for _, route := range c.Routes {
		if route.Queue == queue {
			return route
		}
	}
	return Route{Queue: queue, Policy: c.Default, Breaker: &c.Breaker, classifier: c.classifier}
}

// queues returns the queues of the routes.
func (c Config) queues() []string {
	queues := make([]string, len(c.Routes))
	for i, route := range c.Routes {
		queues[i] = route.Queue
	}
	return queues
}

// declareParking declares a parking queue that was deleted.
func (p *Pipeline) declareParking(queue string) error {
	ctx, cancel := context.WithTimeout(context.Background(), declareTimeout)
	defer cancel()
	return p.reconciler.DeclareParking(ctx, queue)
}

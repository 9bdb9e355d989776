// Package pipeline moves messages through business, retry and poison handlers
// on a Watermill router. It is what a Go service imports: hand it a
// message.HandlerFunc for a queue, and retry, poison and audit are done.
package pipeline

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/lasthop"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline/amqp"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Config says where the broker is and what is handled. Only URL is required.
type Config struct {
	URL      string      // amqp or amqps
	TLS      *tls.Config // nil: as the URL says
	Topology schemas.Topology

	// QueueType of our queues, and of route queues that do not exist yet. Zero: quorum.
	QueueType amqp.QueueType

	Tap    []amqp.Tap // exchanges whose messages are recorded
	Routes []Route

	// Default is the policy of routes that have none, and of dead letters from
	// queues that are no route of this pipeline. Nil: retry.Default.
	Default *retry.Policy

	Logger *slog.Logger // nil: slog.Default

	// StopTimeout is how long the end of Run waits for handlers. Zero: 30 s.
	StopTimeout time.Duration
}

const (
	defaultConcurrency = 16
	defaultStopTimeout = 30 * time.Second
	hopConcurrency     = 64 // messages that the retry and poison handlers move at once
)

// Pipeline is a Watermill router with its handlers.
type Pipeline struct {
	cfg       Config
	login     string
	router    *message.Router
	consuming *rabbit.Connection
	sending   *rabbit.Connection
	publisher *rabbit.Publisher
	live      amqp.LiveTopology
}

// New checks the configuration and connects in the background. Run must follow,
// since it also closes what New opened.
func New(cfg Config) (*Pipeline, error) {
	uri, err := amqp091.ParseURI(cfg.URL)
	if err != nil {
		return nil, errors.New("the AMQP URL cannot be read: expected amqp://LOGIN:PASSWORD@HOST:PORT/VHOST")
	}
	cfg = cfg.withDefaults()
	for _, route := range cfg.Routes {
		if err := route.validate(); err != nil {
			return nil, err
		}
	}
	p := &Pipeline{cfg: cfg, login: uri.Username}
	if p.consuming, err = p.connect("watership consuming", true); err != nil {
		return nil, err
	}
	if p.sending, err = p.connect("watership publishing", false); err != nil {
		return nil, errors.Join(err, p.consuming.Close())
	}
	p.publisher = rabbit.NewPublisher(p.sending, rabbit.PublisherConfig{})
	p.live = amqp.LiveTopology{Conn: p.sending, Config: cfg.TopologyConfig()}
	if err := p.build(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (c Config) withDefaults() Config {
	if c.Default == nil {
		policy := retry.Default()
		c.Default = &policy
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.StopTimeout <= 0 {
		c.StopTimeout = defaultStopTimeout
	}
	c.Routes = slices.Clone(c.Routes)
	for i := range c.Routes {
		c.Routes[i] = c.Routes[i].withDefaults(c.Default)
	}
	return c
}

func (r Route) withDefaults(policy *retry.Policy) Route {
	if r.Policy == nil {
		r.Policy = policy
	}
	if r.Concurrency <= 0 {
		r.Concurrency = defaultConcurrency
	}
	return r
}

func (r Route) validate() error {
	if r.Queue == "" {
		return errors.New("a route has no queue")
	}
	if r.Handler == nil {
		return fmt.Errorf("the route of queue %q has no handler", r.Queue)
	}
	if err := r.Policy.Validate(); err != nil {
		return fmt.Errorf("the route of queue %q: %w", r.Queue, err)
	}
	return nil
}

func (p *Pipeline) connect(name string, consuming bool) (*rabbit.Connection, error) {
	return rabbit.Open(rabbit.Config{
		URL: p.cfg.URL, TLS: p.cfg.TLS, Name: name, Logger: p.cfg.Logger, LargeFrames: consuming,
	})
}

// Router is the Watermill router, for middleware and plugins of one's own.
func (p *Pipeline) Router() *message.Router { return p.router }

// Running closes once every handler consumes.
func (p *Pipeline) Running() <-chan struct{} { return p.router.Running() }

// Run declares the topology and handles messages until ctx ends; then it stops
// fetching, lets handlers finish, gives the rest back and closes everything. It
// waits for a broker that is away, and fails where the topology cannot be as
// configured.
func (p *Pipeline) Run(ctx context.Context) error {
	if err := p.live.Declare(ctx); err != nil {
		return errors.Join(fmt.Errorf("declaring the topology: %w", err), p.close())
	}
	err := p.router.Run(ctx)
	return errors.Join(err, p.close())
}

func (p *Pipeline) close() error {
	return errors.Join(p.publisher.Close(), p.sending.Close(), p.consuming.Close())
}

// TopologyConfig is what Run declares.
func (c Config) TopologyConfig() amqp.TopologyConfig {
	c = c.withDefaults()
	t := amqp.TopologyConfig{Topology: c.Topology, QueueType: c.QueueType, Tap: c.Tap, Delays: c.Default.AllDelays()}
	for _, route := range c.Routes {
		t.Delays = append(t.Delays, route.Policy.AllDelays()...)
		bound := amqp.Route{Queue: route.Queue}
		for _, b := range route.Bind {
			bound.Bind = append(bound.Bind, amqp.Bind(b))
		}
		t.Routes = append(t.Routes, bound)
	}
	return t
}

// build adds the handlers to the router: one for each route, and the retry and
// poison handlers.
func (p *Pipeline) build() (err error) {
	logger := watermill.NewSlogLogger(p.cfg.Logger)
	if p.router, err = message.NewRouter(message.RouterConfig{CloseTimeout: p.cfg.StopTimeout}, logger); err != nil {
		return fmt.Errorf("making the router: %w", err)
	}
	steps := p.steps()
	retrier := &retrier{steps: steps, hop: p.hop(), policyOf: p.policyOf}
	poisoner := &poisoner{steps}
	topology := p.cfg.Topology
	handlers := []handler{
		{topology.Retry(), hopConcurrency, retrier.handleDead},
		{topology.Due(), hopConcurrency, retrier.handleDue},
		{topology.Poison(), hopConcurrency, poisoner.handle},
	}
	for _, route := range p.cfg.Routes {
		business := &business{steps, route}
		handlers = append(handlers, handler{route.Queue, route.Concurrency, business.handle})
	}
	for _, h := range handlers {
		if err := p.add(h, logger); err != nil {
			return err
		}
	}
	return nil
}

type handler struct {
	queue       string
	concurrency int
	handle      message.NoPublishHandlerFunc
}

func (p *Pipeline) add(h handler, logger watermill.LoggerAdapter) error {
	subscriber, err := amqp.NewSubscriberWithConnection(p.subscription(), logger, p.consuming,
		amqp.Concurrency(h.concurrency), amqp.StopTimeout(p.cfg.StopTimeout))
	if err != nil {
		return fmt.Errorf("subscribing to queue %q: %w", h.queue, err)
	}
	p.router.AddConsumerHandler(h.queue, h.queue, subscriber, h.handle)
	return nil
}

// subscription makes every topic the name of a queue.
func (p *Pipeline) subscription() wamqp.Config {
	return wamqp.Config{
		Marshaler:       amqp.Marshaler{},
		Exchange:        wamqp.ExchangeConfig{GenerateName: func(string) string { return "" }},
		Queue:           wamqp.QueueConfig{GenerateName: wamqp.GenerateQueueNameTopicName},
		TopologyBuilder: p.live,
	}
}

func (p *Pipeline) steps() *steps {
	return &steps{
		topology: p.cfg.Topology, publisher: p.publisher, delays: p.live, taps: p.cfg.Tap,
		now: time.Now, newID: watermill.NewULID, logger: p.cfg.Logger,
	}
}

func (p *Pipeline) hop() lasthop.Hop {
	hop := lasthop.Hop{
		Topology: p.cfg.Topology, Publisher: p.publisher, Binder: p.live, Login: p.login, Own: map[string]bool{},
	}
	for _, route := range p.cfg.Routes {
		hop.Own[route.Queue] = true
	}
	return hop
}

func (p *Pipeline) policyOf(queue string) retry.Policy {
	for _, route := range p.cfg.Routes {
		if route.Queue == queue {
			return *route.Policy
		}
	}
	return *p.cfg.Default
}

// Package pipeline runs Watermill handlers on RabbitMQ queues, and retries, parks and
// records their messages. This is a whole service, which retries each failed order after
// 1 s, 10 s and 30 s, only in its own queue:
//
//	func main() {
//		p, err := pipeline.New(pipeline.Config{
//			Connection: rabbitmq.Connection{URL: "amqp://guest:guest@localhost:5672/"},
//			Routes:     []pipeline.Route{{Queue: "orders", Handler: invoice}},
//
//			Standalone: true, // no process runs watership serve
//		})
//		if err != nil {
//			log.Fatal(err)
//		}
//		log.Fatal(p.Run(context.Background()))
//	}
//
//	func invoice(msg *message.Message) ([]*message.Message, error) {
//		return nil, errors.New("the handler of " + msg.UUID + " is not written yet")
//	}
//
// A pipeline publishes an event for each step of a message. An indexer writes the events
// to a store; run `watership serve`, or package indexer.
//
// With `watership serve` in another process, a pipeline runs its routes and nothing else. It
// decides the delay of its messages, and whether they are given up and parked; serve returns
// the messages that have waited to their queues, records those that are given up, and retries
// the dead letters of other consumers.
//
// Services in other languages need no pipeline: `watership serve` retries
// the dead letters of their queues. For a transport without retries use package
// transport.
package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/tracing"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/topology/pause"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline/internal/admission"
	"github.com/watershipmq/watership/pipeline/internal/call"
	"github.com/watershipmq/watership/pipeline/internal/deadletter"
	"github.com/watershipmq/watership/pipeline/internal/output"
)

// Pipeline is a Watermill router with its handlers.
type Pipeline struct {
	cfg          Config // see Config.reload for the fields that change
	vhost        string
	login        string
	tracer       *tracing.Tracer
	metrics      *call.Metrics
	heldMessages *output.HeldMessages
	router       *message.Router
	handlers     *call.Set
	reloads      chan reload
	connections  *connections
	reconciler   topology.Reconciler

	// These publishers repair the topology. RabbitMQ stops reading a connection on which too
	// much waits for one queue, so the queues of services have their own connections.
	ownPublisher, queuePublisher, exchangePublisher *topology.SelfHealingPublisher

	mu           sync.Mutex                      // guards the changing fields of cfg, and the fields below
	admissions   map[string]*admission.Admission // of the routes with a handler, by queue
	consumptions map[string]*consumption         // by queue

	runningCalls map[string]*admission.Running // by queue; also of routes that were stopped
	pauses       *pause.Watcher
	pausesWake   chan struct{} // has a value when keys of routes are unknown to pauses
	verifier     *wire.Verifier
	deathChecker *deadletter.Checker
	queueLimiter *output.Limiter[publisher]

	delayLimiter *output.Limiter[publisher]
	goroutines   usercode.Goroutines
}

// New checks the configuration. Run connects. It must follow once, since it also ends the goroutines that New began.
func New(cfg Config) (*Pipeline, error) {
	uri, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	declared, err := cfg.topology(uri.Vhost)
	if err != nil {
		return nil, err
	}
	p := &Pipeline{
		cfg: cfg, vhost: uri.Vhost, login: rabbit.UserID(uri), metrics: call.NewMetrics(cfg.Registerer), reloads: make(chan reload),
		admissions: map[string]*admission.Admission{}, consumptions: map[string]*consumption{}, runningCalls: map[string]*admission.Running{},
	}
	if p.tracer, err = tracing.New(tracing.Config{Spans: cfg.TracerProvider, Measurements: cfg.MeterProvider, Bare: cfg.BareSpans}); err != nil {
		return nil, fmt.Errorf("the meter of attempts: %w", err)
	}
	p.heldMessages = output.NewHeld(p.metrics.Held)
	p.connections = &connections{server: cfg.Connection, logger: cfg.Logger}
	if err := p.connections.prepare(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.reconciler = topology.Reconciler{Conn: p.connections.declaring, Config: declared, Latest: &atomic.Pointer[topology.Config]{}, SelfBindings: &topology.SelfBindings{}, Turns: make(chan struct{}, 1), Logger: cfg.Logger, Every: cfg.TopologyEvery}
	sending := p.connections.publisherOn(p.connections.sending)
	p.verifier = &wire.Verifier{Topology: cfg.Topology, Keys: cfg.StateKeys, Fingerprints: cfg.Fingerprints}
	p.reconciler.Lost = topology.Losses{Verifier: p.verifier, Publisher: sending}.Record
	p.ownPublisher = topology.NewSelfHealingPublisher(sending, p.reconciler)
	p.queuePublisher = topology.NewSelfHealingPublisher(p.connections.publisherOn(p.connections.returning), p.reconciler)
	p.exchangePublisher = topology.NewSelfHealingPublisher(p.connections.publisherOn(p.connections.outgoing), p.reconciler)
	p.queueLimiter = output.NewLimiter[publisher](signingPublisher{p.queuePublisher, p.verifier}, p.dedicatedPublisher, cfg.ConfirmTimeout, queueShare)
	p.delayLimiter = output.NewLimiter[publisher](signingPublisher{p.ownPublisher, p.verifier}, p.dedicatedPublisher, cfg.ConfirmTimeout, delayShare)
	p.pausesWake = make(chan struct{}, 1)
	p.pauses = &pause.Watcher{Topology: cfg.Topology, Publisher: p.ownPublisher, Logger: cfg.Logger, Wake: p.pausesWake}
	p.deathChecker = deadletter.NewChecker(cfg.Topology, declared.Discovery)
	if err := p.build(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// dedicatedPublisher returns a publisher with its own connection.
func (p *Pipeline) dedicatedPublisher() (publisher, func()) {
	by, end, err := p.connections.dedicatedPublisher()
	if err != nil { // as the others had
		return signingPublisher{p.queuePublisher, p.verifier}, func() {}
	}
	return signingPublisher{topology.NewSelfHealingPublisher(by, p.reconciler), p.verifier}, end
}

// Router returns the Watermill router, for more middleware and plugins. Each handler has
// the name of its queue; one more gets no messages, and keeps the router running. Middleware wraps the acknowledgement: its errors requeue the
// message, and it sees no outgoing messages. To change those, wrap Route.Handler instead.
func (p *Pipeline) Router() *message.Router { return p.router }

// Running returns a channel that is closed when every handler consumes its queue. It stays open where Run ends before
// that, so wait for the end of Run or its context as well.
func (p *Pipeline) Running() <-chan struct{} { return p.router.Running() }

// RouteState is the state of a route.
type RouteState struct {
	Queue        string
	Paused       time.Time // the time at which its breaker opened; zero: it is closed
	Error        string    // the error of its messages then
	PausedByHand bool      // an operator has paused it
	Standby      time.Time // since when another process handles its messages in order; zero: this one may
}

// Routes returns the state of each route that has a handler, in the order of Config.Routes.
func (p *Pipeline) Routes() []RouteState {
	p.mu.Lock()
	defer p.mu.Unlock()
	var states []RouteState
	for _, route := range p.cfg.Routes {
		if a, handled := p.admissions[route.Queue]; handled {
			states = append(states, RouteState(a.State()))
		}
	}
	return states
}

// Err returns the reason why no messages are delivered or published now; nil while the
// broker is connected.
func (p *Pipeline) Err() error { return p.connections.problem() }

// Held returns an error that names the messages that are held; nil while none exists.
// A handler has finished with a held message, but the broker does not confirm its next
// copy, so the message is not acknowledged. The publish is repeated until it succeeds.
func (p *Pipeline) Held() error { return p.heldMessages.Err(time.Now()) }

// Run connects, declares the topology and handles messages until ctx ends. Then it stops
// consuming, waits for handlers up to Config.StopTimeout, requeues the other messages,
// closes the connections and returns nil. It waits for an unavailable broker, and fails if the
// topology cannot be declared as configured.
func (p *Pipeline) Run(ctx context.Context) error {
	p.connections.start()
	if err := p.reconciler.Declare(ctx); err != nil {
		return errors.Join(ignoreEnd(ctx, fmt.Errorf("declaring the topology: %w", err)), p.close())
	}
	if err := p.checkBroker(ctx); err != nil {
		return errors.Join(ignoreEnd(ctx, err), p.close())
	}
	p.pauses.Check(ctx)
	// Handlers still publish while they finish, so the topology is reconciled longer than ctx.
	reconciling, stop := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() { p.reconciler.Reconcile(reconciling) })
	work.Go(func() {
		role.Watcher{Topology: p.cfg.Topology, Connection: p.connections.declaring, Every: p.cfg.TopologyEvery, Logger: p.cfg.Logger}.Watch(ctx, func(r role.Role) bool { return p.cfg.has(Role(r)) })
	})
	work.Go(func() { p.pauses.Watch(ctx) })
	running, end := context.WithCancel(ctx)
	work.Go(func() { p.serveReloads(running) })
	err := p.router.Run(ctx)
	end()
	stop()
	work.Wait()
	return errors.Join(err, p.close())
}

// firstTrustedVersion is the first major version of RabbitMQ that overwrites the x-death
// header of a publisher (https://www.rabbitmq.com/docs/dlx).
const firstTrustedVersion = 4

// checkBroker finds out, before the first delivery, which states and deaths are trusted.
func (p *Pipeline) checkBroker(ctx context.Context) error {
	version, err := p.connections.sending.ServerVersion(ctx)
	if err != nil {
		return err
	}
	major, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(major)
	p.deathChecker.Trusted = n >= firstTrustedVersion
	p.verifier.ForgeableDeaths = !p.deathChecker.Trusted
	former, err := p.reconciler.FormerDelays(ctx)
	if err != nil {
		return fmt.Errorf("looking for delay queues of a former release: %w", err)
	}
	if p.verifier.FormerRelease = len(former) > 0; p.verifier.FormerRelease {
		p.cfg.Logger.Warn("delay queues of a former release exist, so states that arrive by the default exchange are trusted; "+
			"once no process of that release runs, `watership setup` deletes those that are empty", "queues", former)
	}
	return nil
}

// ignoreEnd drops an error that follows from the end of ctx.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (p *Pipeline) close() error {
	defer p.goroutines.Close()
	err := p.connections.close()
	for _, a := range p.admissions {
		a.Wait()
	}
	return err
}

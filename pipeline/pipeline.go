// Package pipeline runs Watermill handlers on RabbitMQ queues, and retries, parks and
// records their messages. This is a whole service, which retries each failed order after
// 1 s, 10 s and 30 s, only in its own queue:
//
//	func main() {
//		p, err := pipeline.New(pipeline.Config{
//			URL:    "amqp://guest:guest@localhost:5672/",
//			Routes: []pipeline.Route{{Queue: "orders", Handler: invoice}},
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
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/topology/pause"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/pipeline/internal/admission/breaker"
	"github.com/watershipmq/watership/pipeline/internal/admission/placelog"
	"github.com/watershipmq/watership/pipeline/internal/call"
	"github.com/watershipmq/watership/pipeline/internal/deadletter"
	"github.com/watershipmq/watership/pipeline/internal/output"
	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/schemas"
)

// Pipeline is a Watermill router with its handlers.
type Pipeline struct {
	cfg          Config // see Config.reload for the fields that change
	vhost        string
	login        string
	metrics      *call.Metrics
	heldMessages *output.HeldMessages
	router       *message.Router
	handlers     *call.Set
	reloads      chan reload
	consuming    *transport.Connection
	sending      *rabbit.Connection // events, delays and poison
	declaring    *rabbit.Connection // RabbitMQ closes it when it cannot declare something in time
	returning    *rabbit.Connection // messages to the queues of services, and parked copies
	outgoing     *rabbit.Connection // outgoing messages of handlers

	connections []io.Closer // all of these
	publishers  []*rabbit.Publisher
	reconciler  topology.Reconciler

	// These publishers repair the topology. RabbitMQ stops reading a connection on which too
	// much waits for one queue, so the queues of services have their own connections.
	ownPublisher, queuePublisher, exchangePublisher *topology.SelfHealingPublisher

	mu           sync.Mutex                  // guards the changing fields of cfg, and the fields below
	breakers     map[string]*breaker.Breaker // of the routes with a handler, by queue
	places       map[string]*placelog.Log    // of the ordered routes, by queue
	consumptions map[string]*consumption     // by queue

	runningCalls map[string]*call.Running // by queue; also of routes that were stopped
	pauses       *pause.Watcher
	verifier     *schemas.Verifier
	deathChecker *deadletter.Checker
	queueLimiter *output.Limiter[publisher]

	delayLimiter *output.Limiter[publisher]
	goroutines   usercode.Goroutines
}

// New checks the configuration and connects in the background. Run must follow, since
// it also closes the connections that New opened.
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
		breakers: map[string]*breaker.Breaker{}, places: map[string]*placelog.Log{}, consumptions: map[string]*consumption{}, runningCalls: map[string]*call.Running{},
	}
	p.heldMessages = output.NewHeld(p.metrics.Held)
	if err := p.connectAll(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.reconciler = topology.Reconciler{Conn: p.declaring, Config: declared, Latest: &atomic.Pointer[topology.Config]{}, SelfBindings: &topology.SelfBindings{}, Turns: make(chan struct{}, 1), Logger: cfg.Logger, Every: cfg.TopologyEvery}
	p.ownPublisher = p.publisherOn(p.sending)
	p.queuePublisher = p.publisherOn(p.returning)
	p.exchangePublisher = p.publisherOn(p.outgoing)
	p.verifier = &schemas.Verifier{Topology: cfg.Topology, Keys: cfg.StateKeys, Fingerprints: cfg.Fingerprints}
	p.queueLimiter = output.NewLimiter[publisher](p.signingPublisher(p.queuePublisher), p.dedicatedPublisher, cfg.ConfirmTimeout, queueShare)
	p.delayLimiter = output.NewLimiter[publisher](p.signingPublisher(p.ownPublisher), p.dedicatedPublisher, cfg.ConfirmTimeout, delayShare)
	p.pauses = &pause.Watcher{Topology: cfg.Topology, Publisher: p.ownPublisher, Logger: cfg.Logger}
	p.deathChecker = &deadletter.Checker{Topology: cfg.Topology, Discovery: declared.Discovery}
	if err := p.build(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

// maxGivenUp is the number of unconfirmed messages after which their channel is given
// up: RabbitMQ may not answer on it for long.
const maxGivenUp = 8

func (p *Pipeline) connectAll() (err error) {
	p.consuming, err = transport.NewConnection(
		wamqp.ConnectionConfig{AmqpURI: p.cfg.URL, TLSConfig: p.cfg.TLS, AmqpConfig: &amqp.Config{Dial: p.cfg.Dial}}, p.cfg.Logger, transport.ConnectionName("watership consuming"))
	if err != nil {
		return err
	}
	p.connections = append(p.connections, p.consuming)
	for _, c := range []struct {
		connection **rabbit.Connection
		name       string
	}{
		{&p.declaring, "watership declaring"},
		{&p.sending, "watership publishing"},
		{&p.returning, "watership returning"},
		{&p.outgoing, "watership outgoing"},
	} {
		if *c.connection, err = p.connect(c.name); err != nil {
			return err
		}
		p.connections = append(p.connections, *c.connection)
	}
	return nil
}

// dedicatedPublisher returns a publisher with its own connection.
func (p *Pipeline) dedicatedPublisher() (by publisher, end func()) {
	connection, err := p.connect("watership probing")
	if err != nil { // as the others had
		return p.signingPublisher(p.queuePublisher), func() {}
	}
	publisher := rabbit.NewPublisher(connection, rabbit.PublisherConfig{Window: 1, StopTimeout: time.Millisecond})
	return p.signingPublisher(topology.NewSelfHealingPublisher(publisher, p.reconciler)), func() {
		_ = publisher.Close() // its unconfirmed messages have been reported
		_ = connection.Close()
	}
}

func (p *Pipeline) publisherOn(connection *rabbit.Connection) *topology.SelfHealingPublisher {
	publisher := rabbit.NewPublisher(connection, rabbit.PublisherConfig{MaxGivenUp: maxGivenUp})
	p.publishers = append(p.publishers, publisher)
	return topology.NewSelfHealingPublisher(publisher, p.reconciler)
}

func (p *Pipeline) connect(name string) (*rabbit.Connection, error) {
	return rabbit.Open(rabbit.Config{URL: p.cfg.URL, TLS: p.cfg.TLS, Dial: p.cfg.Dial, Name: name, Logger: p.cfg.Logger})
}

// Router returns the Watermill router, for more middleware and plugins. Each handler has
// the name of its queue; one more gets no messages, and keeps the router running. Middleware wraps the acknowledgement: its errors requeue the
// message, and it sees no outgoing messages. To change those, wrap Route.Handler instead.
func (p *Pipeline) Router() *message.Router { return p.router }

// Running returns a channel that is closed when every handler consumes its queue.
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
		if b, handled := p.breakers[route.Queue]; handled {
			since, why := b.Outage()
			held, _ := p.pauses.Switch(route.Queue).State()
			states = append(states, RouteState{Queue: route.Queue, Paused: since, Error: why.Message, PausedByHand: held, Standby: p.places[route.Queue].Standby()})
		}
	}
	return states
}

// Err returns the reason why no messages are delivered or published now; nil while the
// broker is connected.
func (p *Pipeline) Err() error {
	return cmp.Or(p.consuming.Err(), p.sending.Err(), p.returning.Err(), p.outgoing.Err(), p.declaring.Err())
}

// Held returns an error that names the messages that are held; nil while none exists.
// A handler has finished with a held message, but the broker does not confirm its next
// copy, so the message is not acknowledged. The publish is repeated until it succeeds.
func (p *Pipeline) Held() error { return p.heldMessages.Err(time.Now()) }

// Run declares the topology and handles messages until ctx ends. Then it stops
// consuming, waits for handlers up to Config.StopTimeout, requeues the other messages
// and closes the connections. It waits for an unavailable broker, and fails if the
// topology cannot be declared as configured.
func (p *Pipeline) Run(ctx context.Context) error {
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
		role.Watcher{Topology: p.cfg.Topology, Connection: p.declaring, Every: p.cfg.TopologyEvery, Logger: p.cfg.Logger}.Watch(ctx, func(r role.Role) bool { return p.cfg.has(Role(r)) })
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
	version, err := p.sending.ServerVersion(ctx)
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
	errs := make([]error, len(p.publishers))
	var closing sync.WaitGroup
	for i, publisher := range p.publishers {
		closing.Go(func() { errs[i] = publisher.Close() })
	}
	closing.Wait()
	// At once, since a consumer that begins waits for the connection that declares its queue.
	closed := make([]error, len(p.connections))
	for i, connection := range p.connections {
		closing.Go(func() { closed[i] = connection.Close() })
	}
	closing.Wait()
	errs = append(errs, closed...)
	for _, places := range p.places {
		places.Wait()
	}
	return errors.Join(errs...)
}

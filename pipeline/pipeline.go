// Package pipeline moves messages through business, retry and poison handlers
// on a Watermill router. It is what a Go service imports: hand it a
// message.HandlerFunc for a queue, and retry, poison and audit are done.
package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline/amqp"
	"github.com/watershipmq/watership/schemas"
)

// Pipeline is a Watermill router with its handlers.
type Pipeline struct {
	cfg       Config
	login     string
	metrics   *metrics
	holds     *holds
	router    *message.Router
	consuming *rabbit.Connection
	sending   *rabbit.Connection
	publisher *rabbit.Publisher
	live      amqp.LiveTopology
	restoring *amqp.Restoring // publishes, and brings back what of ours has vanished
	breakers  []*breaker      // of Config.Routes, in their order
	verifier  *schemas.Verifier
	deaths    *deaths
	targets   *targets

	delayTargets *targets
}

// New checks the configuration and connects in the background. Run must follow,
// since it also closes what New opened.
func New(cfg Config) (*Pipeline, error) {
	uri, err := amqp091.ParseURI(cfg.URL)
	if err != nil {
		return nil, errors.New("the AMQP URL cannot be read: expected amqp://LOGIN:PASSWORD@HOST:PORT/VHOST")
	}
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := &Pipeline{cfg: cfg, login: rabbit.UserID(uri), metrics: newMetrics(cfg.Registerer)}
	p.holds = &holds{gauge: p.metrics.held}
	if p.consuming, err = p.connect("watership consuming", true); err != nil {
		return nil, err
	}
	if p.sending, err = p.connect("watership publishing", false); err != nil {
		return nil, errors.Join(err, p.consuming.Close())
	}
	p.publisher = rabbit.NewPublisher(p.sending, rabbit.PublisherConfig{})
	p.live = amqp.LiveTopology{Conn: p.sending, Config: cfg.TopologyConfig(), Logger: cfg.Logger, Every: cfg.TopologyEvery}
	p.restoring = amqp.NewRestoring(p.publisher, p.live)
	p.verifier = &schemas.Verifier{Topology: cfg.Topology, Keys: cfg.StateKeys}
	p.targets = newTargets(cfg.ConfirmTimeout, targetShare)
	p.delayTargets = newTargets(cfg.ConfirmTimeout, delayShare)
	p.deaths = &deaths{topology: cfg.Topology, discovery: cfg.Discovery, now: time.Now}
	if err := p.build(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *Pipeline) connect(name string, consuming bool) (*rabbit.Connection, error) {
	return rabbit.Open(rabbit.Config{
		URL: p.cfg.URL, TLS: p.cfg.TLS, Name: name, Logger: p.cfg.Logger, LargeFrames: consuming,
	})
}

// Router is the Watermill router, for middleware and plugins of one's own. Each
// handler has the name of its queue. Middleware is around what acknowledges: an
// error that it makes puts the message back into its queue, and it sees no
// outgoing messages. To change those, wrap Route.Handler instead.
func (p *Pipeline) Router() *message.Router { return p.router }

// Running closes once every handler consumes.
func (p *Pipeline) Running() <-chan struct{} { return p.router.Running() }

// RouteState is how a route is doing.
type RouteState struct {
	Queue  string
	Paused time.Time // since when its breaker is open; zero: it is closed
	Error  string    // with what its messages fail then
}

// Routes says how each route is doing, in the order of Config.Routes.
func (p *Pipeline) Routes() []RouteState {
	states := make([]RouteState, len(p.breakers))
	for i, breaker := range p.breakers {
		since, why := breaker.outage()
		states[i] = RouteState{Queue: p.cfg.Routes[i].Queue, Paused: since, Error: why.Message}
	}
	return states
}

// Err says why no messages come in or go out now: nil while the broker is
// connected.
func (p *Pipeline) Err() error { return cmp.Or(p.consuming.Err(), p.sending.Err()) }

// Held says which messages are held, nil while there are none: what became of them is
// known, and the broker takes no record of it, so they are not acknowledged. It is
// tried again until the broker takes it.
func (p *Pipeline) Held() error { return p.holds.err(time.Now()) }

// Run declares the topology and handles messages until ctx ends; then it stops
// fetching, lets handlers finish within Config.StopTimeout, gives the rest back
// and closes everything. It waits for a broker that is away, and fails where the
// topology cannot be as configured.
func (p *Pipeline) Run(ctx context.Context) error {
	if err := p.live.Declare(ctx); err != nil {
		if ctx.Err() != nil { // stopped before the broker answered
			return p.close()
		}
		return errors.Join(fmt.Errorf("declaring the topology: %w", err), p.close())
	}
	if err := p.learn(ctx); err != nil {
		return errors.Join(ignoreEnd(ctx, err), p.close())
	}
	// Handlers still publish while they finish, so it is kept longer than ctx.
	keeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var work sync.WaitGroup
	work.Go(func() { p.live.Keep(keeping) })
	err := p.router.Run(ctx)
	stop()
	work.Wait()
	return errors.Join(err, p.close())
}

// firstCertain is the first major version of RabbitMQ that believes no x-death of a
// publisher (https://www.rabbitmq.com/docs/dlx).
const firstCertain = 4

// learn finds out, before any message comes, what states and deaths may be believed.
func (p *Pipeline) learn(ctx context.Context) error {
	version, err := p.sending.ServerVersion(ctx)
	if err != nil {
		return err
	}
	major, _, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(major)
	p.deaths.certain = n >= firstCertain
	former, err := p.live.FormerDelays(ctx)
	if err != nil {
		return fmt.Errorf("looking for delay queues of a former release: %w", err)
	}
	if p.verifier.FormerRelease = len(former) > 0; p.verifier.FormerRelease {
		p.cfg.Logger.Warn("delay queues of a former release are there, so states that come by the default exchange are believed; "+
			"once no process of that release runs, `watership setup` deletes those that are empty", "queues", former)
	}
	return nil
}

// ignoreEnd: being stopped is no failure.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (p *Pipeline) close() error {
	return errors.Join(p.publisher.Close(), p.sending.Close(), p.consuming.Close())
}

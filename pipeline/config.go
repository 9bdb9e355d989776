package pipeline

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/pipeline/transport"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Config says where the broker is and what is handled. Only URL is required.
type Config struct {
	URL      string           // amqp or amqps
	TLS      *tls.Config      // nil: as the URL says
	Topology schemas.Topology // names of our exchanges and queues; zero: schemas.DefaultPrefix

	// QueueType of our queues, and of route queues that do not exist yet. Zero: quorum.
	QueueType transport.QueueType

	// StateKeys sign what travels with messages, so that a state counts only with a
	// signature. Every process of Watership in the virtual host needs the same. Zero:
	// states count that came by Watership's exchanges, to which others must not have
	// the right to write.
	StateKeys schemas.StateKeys

	Tap    []transport.Tap // exchanges whose messages are recorded
	Routes []Route         // each queue once; none: only dead letters are retried

	// Discovery finds the keys of direct exchanges that are tapped without, and
	// those that are bound later within TopologyEvery. Nil: each needs its keys, and
	// what dead letters say of the queues that they died in is not checked.
	Discovery *transport.Discovery

	// TopologyEvery is about how often the topology is looked at, and what is
	// missing put back. Zero: 30 s.
	TopologyEvery time.Duration

	// Default is the policy of routes that have none, and of dead letters from
	// queues that are no route of this pipeline. Nil: retry.Default.
	Default *retry.Policy

	// RetriedDeaths are the reasons for which a dead letter is tried again:
	// rejected, expired, maxlen, delivery_limit
	// (https://www.rabbitmq.com/docs/dlx). One of any other reason is poison at
	// once. Nil: rejected. Empty: none.
	RetriedDeaths []string

	// Breaker says when a route pauses since the service that its handler needs is
	// unavailable, and for how long messages wait for that. Routes may have others.
	Breaker retry.Breaker

	// ReturnGrace is how long a queue may be gone before the messages that are
	// due for it are given up; deploys re-create queues. It begins when a message
	// that is due first finds the queue gone. Zero: 5 min.
	ReturnGrace time.Duration

	// ReturnPause is the wait before another try at a queue that is full, gone or
	// silent; whole milliseconds. Zero: 10 s.
	ReturnPause time.Duration

	// ConfirmTimeout is how long a queue may take to confirm a message that goes to it:
	// a message that is retried or parked, and what a handler publishes. A quorum
	// queue without a majority confirms nothing. A message that is due tries again
	// after ReturnPause then, and may arrive twice; an attempt whose outgoing messages
	// are not confirmed is one at an unavailable service. Zero: 30 s.
	ConfirmTimeout time.Duration

	// OnPoison is called for each message that is given up, when its `poisoned`
	// event and its parked copy are safe: to tell somebody, to open a ticket. It
	// may be called twice for a message, and holds up the poison handler, which
	// moves 256 messages at a time. The context ends after OnPoisonTimeout, and
	// when the pipeline has waited long enough for its end. An error or a panic is
	// logged and changes nothing; a call that does not return is logged and left to
	// itself. Nil: nothing is called.
	OnPoison func(ctx context.Context, e schemas.Event) error

	OnPoisonTimeout time.Duration // of one call of OnPoison; zero: 1 min

	// OnHang is called once for each attempt whose handler has not returned a
	// second after its time-out. The message stays with that handler until it
	// returns or the pipeline ends, since it may still do its work; if the broker
	// delivers it again meanwhile, as after its consumer_timeout, that is an attempt
	// that failed. It is logged and counted in any case. Nil: nothing is called.
	OnHang func(a Attempt)

	// MaxBytes bounds the messages that are in flight of each queue, of routes and
	// our own, by the bytes of their bodies and headers; one message may be, however
	// large it is. Handling one takes about three times its size. Zero: 64 MiB.
	MaxBytes int

	Logger     *slog.Logger          // nil: slog.Default
	Registerer prometheus.Registerer // of the metrics, for one pipeline; nil: nobody sees them

	// StopTimeout is how long the end of Run waits for handlers; messages of
	// those that have not finished go back to their queues. Zero: 30 s.
	StopTimeout time.Duration
}

const (
	defaultConcurrency = 16
	defaultMaxBytes    = 64 << 20
	defaultStopTimeout = 30 * time.Second
	defaultReturnGrace = 5 * time.Minute
	defaultReturnPause = 10 * time.Second
	defaultHookTimeout = time.Minute

	defaultConfirmTimeout = 30 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Default == nil {
		policy := retry.Default()
		c.Default = &policy
	}
	if c.RetriedDeaths == nil {
		c.RetriedDeaths = []string{deathRejected}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.MaxBytes <= 0 {
		c.MaxBytes = defaultMaxBytes
	}
	orElse(&c.StopTimeout, defaultStopTimeout)
	orElse(&c.ReturnGrace, defaultReturnGrace)
	orElse(&c.ReturnPause, defaultReturnPause)
	orElse(&c.ConfirmTimeout, defaultConfirmTimeout)
	orElse(&c.OnPoisonTimeout, defaultHookTimeout)
	c.Routes = slices.Clone(c.Routes)
	for i := range c.Routes {
		c.Routes[i] = c.Routes[i].withDefaults(c.Default, c.Breaker)
	}
	return c
}

func orElse(d *time.Duration, fallback time.Duration) {
	if *d <= 0 {
		*d = fallback
	}
}

// validate says everything that is wrong with a configuration that has its defaults.
func (c Config) validate() error {
	var errs []error
	if err := c.Default.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("the default policy: %w", err))
	}
	if err := c.Breaker.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("the default breaker: %w", err))
	}
	for _, reason := range c.RetriedDeaths {
		if !slices.Contains(deathReasons(), reason) {
			errs = append(errs, fmt.Errorf("retried deaths: %q: expected any of %v", reason, deathReasons()))
		}
	}
	if c.ReturnPause%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("return pause %s: expected whole milliseconds", c.ReturnPause))
	}
	queues := map[string]bool{}
	for _, route := range c.Routes {
		errs = append(errs, route.validate(c.Topology))
		if queues[route.Queue] {
			errs = append(errs, fmt.Errorf("queue %q has two routes", route.Queue))
		}
		queues[route.Queue] = true
	}
	return errors.Join(errs...)
}

// TopologyConfig is what Run declares.
func (c Config) TopologyConfig() transport.TopologyConfig {
	c = c.withDefaults()
	t := transport.TopologyConfig{Topology: c.Topology, QueueType: c.QueueType, Tap: c.Tap, Discovery: c.Discovery, Delays: c.Default.AllDelays()}
	for _, route := range c.Routes {
		t.Delays = append(t.Delays, route.Policy.AllDelays()...)
		t.Routes = append(t.Routes, route.declared()...)
	}
	return t
}

package pipeline

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Config configures a Pipeline. Only URL is required.
type Config struct {
	URL string      // amqp or amqps
	TLS *tls.Config // nil: as the URL says

	// Nodes are further nodes of the broker's cluster as host:port, to which the rest of URL
	// applies. Each attempt to connect tries all in random order.
	Nodes []string

	// Dial opens the byte stream to the broker, such as one through a proxy. Nil: TCP.
	Dial func(network, address string) (net.Conn, error)

	Topology schemas.Topology // names of Watership's exchanges and queues; zero: schemas.DefaultPrefix

	// QueueType of Watership's queues, and of route queues that do not exist yet. Zero: quorum.
	QueueType QueueType

	// StateKeys sign the states of messages, so that a state counts only with a
	// signature. Every process of Watership in the virtual host needs the same keys. Zero:
	// states count that arrive by Watership's exchanges, to which other logins must not
	// have the right to write.
	StateKeys schemas.StateKeys

	// Fingerprints have the settings of every process of Watership in the virtual host.
	Fingerprints schemas.Fingerprints

	// Streams finds the stream of a message, for events that travel without its body: see
	// streamid.New. All processes need the same. Nil: messages have none.
	Streams func(schemas.Envelope) schemas.MessageStream

	Tap    []Tap   // exchanges whose messages are recorded
	Routes []Route // each queue once

	// Roles are the parts of Watership that this pipeline runs in addition to its routes.
	// Several processes may have a role; their configurations should be equal, since any
	// of them may get a message. Zero: none, since `watership serve` has them all.
	Roles []Role

	// Standalone gives the pipeline every role, for a system without `watership serve`.
	Standalone bool

	// ManagementURL is the address of RabbitMQ's management API, such as
	// http://user:password@host:15672. It lists the keys of direct exchanges that are
	// tapped without, and within TopologyEvery those that are bound later. "": each needs
	// its keys, and the x-death headers of dead letters are not checked.
	ManagementURL    string
	ManagementNodes  []string     // further nodes of it as host:port
	ManagementClient *http.Client // nil: one that gives a request ten seconds

	// TopologyEvery is about how often the topology is checked, and missing exchanges,
	// queues and bindings are declared again. Zero: 30 s.
	TopologyEvery time.Duration

	// Default is the policy of routes that have none, and with RoleRetry of dead letters
	// from queues that are no route of this pipeline. Nil: retry.Default.
	Default *retry.Policy

	// Rules give classes to errors that name none, by queue, headers, type and text. The
	// first that matches counts. With RoleRetry they hold for dead letters and reports, too.
	Rules []retry.Rule

	// RetriedDeaths are the reasons for which a dead letter is tried again, with RoleRetry:
	// rejected, expired, maxlen, delivery_limit
	// (https://www.rabbitmq.com/docs/dlx). One of any other reason is poison at
	// once. Nil: rejected. Empty: none.
	RetriedDeaths []string

	// Breaker configures when a route pauses because the service that its handler needs
	// is unavailable, and for how long messages wait for the service. Routes may override it.
	Breaker retry.Breaker

	// ReturnGrace is how long a queue may be missing before the messages that are due for
	// it become poison, with RoleDue; deploys re-create queues. It begins when a message
	// that is due first finds the queue missing. Zero: 5 min.
	ReturnGrace time.Duration

	// ReturnPause is the wait before another try at a queue that is full, missing or does
	// not confirm; whole milliseconds. Zero: 10 s.
	ReturnPause time.Duration

	// Decisions finds the decisions of operators about waiting messages, with RoleDue. Nil:
	// messages about which an operator has decided wait until another process with RoleDue
	// gets them. `watership serve` has it.
	Decisions FindDecision

	// ConfirmTimeout bounds the wait for the confirm of a retried message, of a parked
	// copy and of a message that a handler publishes. A quorum queue without a majority
	// confirms nothing. A message that is due is then tried again after ReturnPause, and
	// may arrive twice; an attempt whose outgoing messages are not confirmed counts as an
	// attempt at an unavailable service. Zero: 30 s.
	ConfirmTimeout time.Duration

	// OnPoison is called for each message that this pipeline gives up: of its routes, and
	// with RoleRetry and RoleDue of other queues. The broker has confirmed the
	// message in the poison queue by then; its `poisoned` event and its parked copy follow.
	// It serves for a notification or a ticket. It may be called twice for a message,
	// whose handler's slot it takes. The context ends after OnPoisonTimeout, and when the
	// pipeline has waited long enough for its end. An error or a panic is logged and
	// changes nothing; a call that does not return is logged and goes on by itself. Nil:
	// no call.
	OnPoison func(ctx context.Context, e schemas.Event) error

	OnPoisonTimeout time.Duration // of one call of OnPoison; zero: 1 min

	// OnHang is called once for each attempt whose handler has not returned a second after
	// its time-out. The message stays with that handler until it returns or the pipeline
	// ends, since it may still do its work. If the broker delivers the message once more
	// before that, as after its consumer_timeout, that is an attempt that failed. Hanging
	// handlers are logged and counted in any case. Nil: no call.
	OnHang func(a retry.Attempt)

	// MaxBytes bounds the messages in flight of each queue, by the bytes of their bodies
	// and headers; one message may be in flight, however large it is. Handling a message
	// takes about three times its size. Zero: 64 MiB.
	MaxBytes int

	Logger     *slog.Logger          // nil: slog.Default
	Registerer prometheus.Registerer // of the metrics, for one pipeline; nil: they are not registered

	// StopTimeout is how long the end of Run waits for handlers; messages of
	// those that have not finished go back to their queues. Zero: 30 s.
	StopTimeout time.Duration

	classifier *retry.Classifier // of Rules
}

const (
	defaultConcurrency   = 16
	defaultMaxDeliveries = 5
	defaultMaxBytes      = 64 << 20
	defaultStopTimeout   = 30 * time.Second
	defaultReturnGrace   = 5 * time.Minute
	defaultReturnPause   = 10 * time.Second
	defaultHookTimeout   = time.Minute

	defaultTopologyEvery = 30 * time.Second

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
	orElse(&c.TopologyEvery, defaultTopologyEvery)
	orElse(&c.StopTimeout, defaultStopTimeout)
	orElse(&c.ReturnGrace, defaultReturnGrace)
	orElse(&c.ReturnPause, defaultReturnPause)
	orElse(&c.ConfirmTimeout, defaultConfirmTimeout)
	orElse(&c.OnPoisonTimeout, defaultHookTimeout)
	c.classifier, _ = retry.NewClassifier(c.Rules...) // validate reports mistakes
	c.Routes = slices.Clone(c.Routes)
	for i := range c.Routes {
		c.Routes[i] = c.Routes[i].withDefaults(c.Default, c.Breaker, c.Rules)
	}
	return c
}

func orElse(d *time.Duration, fallback time.Duration) {
	if *d <= 0 {
		*d = fallback
	}
}

// validate returns every error of a configuration that has its defaults.
func (c Config) validate() error {
	var errs []error
	if err := c.Default.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("the default policy: %w", err))
	}
	if err := c.Breaker.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("the default breaker: %w", err))
	}
	if _, err := retry.NewClassifier(c.Rules...); err != nil {
		errs = append(errs, fmt.Errorf("rules: %w", err))
	}
	for _, reason := range c.RetriedDeaths {
		if !slices.Contains(deathReasons(), reason) {
			errs = append(errs, fmt.Errorf("retried deaths: %q: expected any of %v", reason, deathReasons()))
		}
	}
	if c.ReturnPause%time.Millisecond != 0 {
		errs = append(errs, fmt.Errorf("return pause %s: expected whole milliseconds", c.ReturnPause))
	}
	errs = append(errs, c.validateRoles())
	queues := map[string]bool{}
	for _, route := range c.Routes {
		errs = append(errs, route.validate(c.Topology))
		if route.Handler == nil && !c.has(RoleRetry) {
			errs = append(errs, fmt.Errorf("the route of queue %q has no handler: expected one, or RoleRetry, which retries the dead letters of other consumers", route.Queue))
		}
		if queues[route.Queue] {
			errs = append(errs, fmt.Errorf("queue %q has two routes", route.Queue))
		}
		queues[route.Queue] = true
	}
	return errors.Join(errs...)
}

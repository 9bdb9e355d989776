package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Config configures a Pipeline. Only URL is required.
type Config struct {
	rabbitmq.Connection

	Topology schemas.Topology // names of Watership's exchanges and queues; zero: those with the prefix watership

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

	// Middleware wraps the handler of each route, the first outermost. The context of the
	// message has its envelope (schemas.FromContext) and its attempt (retry.AttemptFrom), and metadata of the messages
	// that the handler returns become their headers. Nil: none.
	Middleware []message.HandlerMiddleware

	// OnEvent is called for each event that this pipeline publishes: an attempt failed, and the message
	// waits for another (schemas.RetryScheduled) or is given up (schemas.Poisoned); it was handled
	// (schemas.Handled); an operator decided about it; a route was paused or resumed. With RoleRetry and RoleDue that is also of
	// other queues. By then the event is in the broker, except the event of a message that is given up: the message is in the
	// poison queue, and its event follows. It serves for a notification, a ticket or a count. It may be called twice for an event,
	// and takes the slot of the message's handler. The context ends after OnEventTimeout, and when the
	// pipeline has waited long enough for its end. An error or a panic is logged and
	// changes nothing; a call that does not return is logged and goes on by itself. Nil:
	// no call.
	OnEvent func(ctx context.Context, e schemas.Event) error

	OnEventTimeout time.Duration // of one call of OnEvent; zero: 1 min

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

	// TracerProvider makes the spans of attempts, waits, messages that are given up, and messages that handlers publish:
	// each is part of the trace of the publisher's traceparent, and linked to the attempt before. The context of a
	// handler has the span of its attempt. Nil: no spans, and messages keep the traceparent of their publishers.
	TracerProvider trace.TracerProvider

	// BareSpans: spans have the exchange, the queue and the fingerprint of a message, and neither its routing key and ids
	// nor texts of errors, as for a record that is redacted.
	BareSpans bool

	// MeterProvider measures attempts as messaging.process.duration. Nil: Registerer alone has their metrics.
	MeterProvider metric.MeterProvider

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
	orElse(&c.OnEventTimeout, defaultHookTimeout)
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
	if at := slices.IndexFunc(c.Middleware, func(m message.HandlerMiddleware) bool { return m == nil }); at >= 0 {
		errs = append(errs, fmt.Errorf("middleware %d of %d is nil: expected a function", at+1, len(c.Middleware)))
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

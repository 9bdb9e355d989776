package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Route is a queue, its bindings, its handler and its retry policy.
type Route struct {
	Queue string
	Bind  []Binding // to exchanges that exist; none without a handler

	// Arguments are arguments of the queue if it does not exist, such as x-max-priority: 5 with
	// x-queue-type: classic. An existing queue stays unchanged. Nil: x-queue-type is
	// Config.QueueType.
	Arguments map[string]any

	// Handler decides by its error what happens to the message: see package retry. It
	// gets a copy: changes of the message, of nested headers and of its acknowledgement
	// do not affect the message that is retried. A nack of the copy makes the message
	// wait without losing an attempt. So does an error of package net or crypto/tls, or
	// of the system, for a service that cannot be reached, as if it were marked with
	// retry.Unavailable. A panic or a runtime.Goexit of the handler, or of a method of
	// its error, is a failure. Nil, with RoleRetry: another program consumes and declares
	// the queue, and its dead letters have Policy and Park.
	Handler message.HandlerFunc

	// Check is called with the body of each message before the Handler is, and its error
	// decides as the Handler's does: see package bodyschema. It gets text decompressed and in
	// UTF-8, as Envelope.BodyText returns it. Without a handler it is called
	// with the body of each failure that a consumer of the queue rejects or reports.
	// Nil: no call.
	Check func(body []byte) error

	// CheckDigest identifies what Check accepts. Processes with RoleRetry compare it, as their
	// policies. It may be "".
	CheckDigest string

	// Rules give classes to errors that name none, before Config.Rules.
	Rules []retry.Rule

	// Decide decides about failed attempts instead of Policy, where its Decision has an Action; one without leaves
	// it to Policy. A retry.Retry counts the attempt, and a retry.Defer does not. Delays are from 1 ms to
	// retry.MaxDelay, and those that no policy names are divided into standard ones. It may be called more than
	// once for an attempt. While a service is unavailable Breaker decides instead, and attempts do not count. A
	// panic, and a call of more than 10 s, are logged and leave the message to Policy. Nil: Policy alone.
	Decide func(retry.Failure) retry.Decision

	Policy      *retry.Policy  // nil: Config.Default
	Breaker     *retry.Breaker // nil, and for each of its fields that is zero: Config.Breaker
	Concurrency int            // messages handled at once; zero: 16
	Timeout     time.Duration  // of one attempt; zero: none
	Fairness    Fairness       // among the keys of messages
	Ordering    Ordering       // of the messages of a key that fail too early; none with Fairness

	// MaxDeliveries is the number of deliveries without an outcome after which a message
	// becomes poison, since its handler probably ends the process. The last
	// two are handled one at a time, while no other message of the route is, and decide:
	// messages that were delivered with it do not become poison. Before these two, and in
	// a classic queue after each process that ended, the message waits 1 s while its
	// deliveries are counted. Zero: 5; negative: no limit.
	MaxDeliveries int

	// Publish is the exchange and key of outgoing messages that name none themselves.
	Publish Binding

	// Headers are for a route without a handler.
	Headers retry.Headers

	// Park publishes a copy of each message of this route that becomes poison to the
	// queue <Queue>.poison, with Watership's headers, in addition to its `poisoned` event.
	// A process with RolePoison publishes it. If that queue is full there is only the
	// event, and an error in the log.
	Park bool

	classifier *retry.Classifier // of Rules and Config.Rules
}

// Binding is an exchange and a routing key.
type Binding struct {
	Exchange string
	Key      string
}

func (r Route) withDefaults(policy *retry.Policy, breaker retry.Breaker, rules []retry.Rule) Route {
	r.classifier, _ = retry.NewClassifier(slices.Concat(r.Rules, rules)...) // validate reports mistakes
	if r.Policy == nil {
		r.Policy = policy
	}
	if r.Breaker != nil {
		breaker = r.Breaker.Or(breaker)
	}
	r.Breaker = &breaker
	if r.Concurrency <= 0 {
		r.Concurrency = defaultConcurrency
	}
	r.Fairness = r.Fairness.withDefaults(r.Concurrency)
	if r.Ordering.Key != nil {
		orElse(&r.Ordering.Within, defaultOrderingWithin)
	}
	if r.MaxDeliveries == 0 {
		r.MaxDeliveries = defaultMaxDeliveries
	}
	return r
}

func (r Route) validate(own schemas.Topology) error {
	if r.Queue == "" {
		return errors.New("a route has no queue")
	}
	if r.Handler == nil && (r.Fairness.Key != nil || len(r.Arguments) > 0) {
		return fmt.Errorf("the route of queue %q has Fairness or Arguments and no handler: expected neither, since another program consumes and declares the queue", r.Queue)
	}
	if r.Fairness.Key == nil && (r.Fairness.Ordered || r.Fairness.Concurrency > 0) {
		return fmt.Errorf("the route of queue %q: Fairness: expected a Key", r.Queue)
	}
	if r.Ordering.Key != nil && (r.Handler == nil || r.Fairness.Key != nil) {
		return fmt.Errorf("the route of queue %q has Ordering: expected a handler, and no Fairness", r.Queue)
	}
	if err := r.Ordering.validate(); err != nil {
		return fmt.Errorf("the route of queue %q: %w", r.Queue, err)
	}
	if r.Handler == nil && len(r.Bind) > 0 {
		return fmt.Errorf("the route of queue %q has bindings and no handler: expected none, since another program consumes and binds the queue", r.Queue)
	}
	if r.Handler != nil && r.Headers != (retry.Headers{}) {
		return fmt.Errorf("the route of queue %q has a handler and Headers: expected none, since its handler returns errors of package retry", r.Queue)
	}
	if r.Park && own.Owns(r.parking()) {
		return fmt.Errorf("the route of queue %q: Park: queue %q belongs to Watership", r.Queue, r.parking())
	}
	_, rules := retry.NewClassifier(r.Rules...)
	if err := errors.Join(r.Policy.Validate(), r.Breaker.Validate(), rules); err != nil {
		return fmt.Errorf("the route of queue %q: %w", r.Queue, err)
	}
	return nil
}

// maxAttempts returns the number of attempts after which a message that is delivered once more has none.
func (r Route) maxAttempts() int {
	if r.Decide != nil {
		return retry.MaxAttempts
	}
	return r.Policy.MaxAttempts()
}

// check returns the error of Check.
func (r Route) check(e schemas.Envelope) error {
	if r.Check == nil {
		return nil
	}
	return r.Check(textOf(e))
}

// textOf returns the text of a body, or the body where it is no text.
func textOf(e schemas.Envelope) []byte {
	if text, isText := e.BodyText(); isText {
		return text
	}
	return e.Body
}

// parking returns the name of the queue for copies of poison.
func (r Route) parking() string { return schemas.Topology{}.Parking(r.Queue) }

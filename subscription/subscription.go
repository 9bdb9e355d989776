package subscription

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Subscription delivers the events of a source that match a query to a target, each at least
// once and in the order of their positions. It is a record in the store.
type Subscription struct {
	Name   string `json:"name"`
	Source string `json:"source"`

	// Query is KQL. Create makes its names full and its times absolute, and adds
	// event.action: published to a query without event.action.
	Query string `json:"query"`

	// Upcast changes former versions of messages on their way to the target. The store keeps them as they were
	// recorded. The zero value changes nothing.
	Upcast Upcast `json:"upcast,omitzero"`

	Target   Target   `json:"target"`
	OnPoison OnPoison `json:"on_poison"`

	// Policy decides about failed calls of a URL or a handler. Nil: a call is repeated after 1 s, 4 s, 16 s and then
	// each minute until it succeeds, unless its error is one of retry.Permanent.
	Policy *retry.Policy `json:"policy,omitempty"`

	// By is the order of the deliveries to a URL or a handler: ByStream delivers up to Concurrency
	// streams side by side, each in order. "": one event after another.
	By By `json:"by,omitempty"`

	// Concurrency is the number of calls at a time, of ByStream. 0: DefaultConcurrency.
	Concurrency int `json:"concurrency,omitempty"`

	Created   time.Time         `json:"created"`
	CreatedBy string            `json:"created_by,omitempty"`
	Start     eventstore.Cursor `json:"start"` // of the first delivery

	State     State     `json:"state"`
	Reason    string    `json:"reason,omitempty"` // of the state
	ChangedBy string    `json:"changed_by,omitempty"`
	Changed   time.Time `json:"changed,omitzero"`
	Revision  int64     `json:"revision"` // number of changes by others than its runner

	Rewinds int64 `json:"rewinds,omitempty"`

	// Accepted is a sequence up to which an operator accepts that events are missing, since retention
	// has removed them: by Create and Rewind those that were removed before, by ResumeAfterRemoved all.
	Accepted int64 `json:"accepted,omitempty"`

	// RemovedUpTo is the highest sequence of removed events that stopped the subscription.
	RemovedUpTo int64 `json:"removed_up_to,omitempty"`

	Checkpoint Checkpoint `json:"checkpoint"`

	version string // of the record
}

// UnmarshalJSON implements json.Unmarshaler. Records of earlier versions have a limit of attempts, with delays of which the
// last repeats, in place of Policy.
func (s *Subscription) UnmarshalJSON(document []byte) error {
	type plain Subscription
	former := struct {
		*plain
		Retry struct {
			Attempts int
			Delays   []time.Duration
		}
	}{plain: (*plain)(s)}
	if err := json.Unmarshal(document, &former); err != nil {
		return err
	}
	if n := former.Retry.Attempts; n > 0 && s.Policy == nil {
		policy := retry.Policy{Delays: former.Retry.Delays}.WithAttempts(n)
		if len(former.Retry.Delays) == 0 || policy.Validate() != nil {
			policy = Attempts(n)
		}
		s.Policy = &policy
	}
	return nil
}

// Checkpoint is the progress of a subscription. Its runner saves it after the deliveries up
// to it are confirmed.
type Checkpoint struct {
	Position  eventstore.Cursor `json:"position"` // deliveries continue after it
	Delivered int64             `json:"delivered"`
	Parked    int64             `json:"parked"` // messages that were parked, also if they are no longer
	Time      time.Time         `json:"time,omitzero"`
	CaughtUp  bool              `json:"caught_up"`         // no matching event was stored after the position
	Waiting   Cause             `json:"waiting,omitempty"` // why nothing is delivered; "": something is
	Error     string            `json:"error,omitempty"`   // of a program, RabbitMQ or the store; "": Waiting says it
	Runner    string            `json:"runner,omitempty"`  // of the process that saved it

	// OneByOne is whether the queue has refused a message: from then on each message waits
	// for the confirm of the one before, so that none passes a refused one.
	OneByOne bool `json:"one_by_one,omitempty"`
}

// State is whether a subscription delivers.
type State string

// The states: a paused subscription waits for its operator, and so does one that a poison
// message stopped, or events that retention removed before they were delivered.
const (
	Active  State = "active"
	Paused  State = "paused"
	Stopped State = "stopped"
)

// OnPoison is what happens to a message that cannot be delivered.
type OnPoison string

// A poison message is parked and the rest goes on, or the rest without the later messages of its stream, which are
// parked as well until it is delivered or dropped, or the subscription stops before it. A message without a stream
// is parked alone.
const (
	Park       OnPoison = "park"
	ParkStream OnPoison = "park-stream"
	Stop       OnPoison = "stop"
)

// By is the order in which events are delivered.
type By string

// ByStream delivers the events of different streams, and those without a stream, in any order.
const ByStream By = "stream"

// Numbers of calls at a time.
const (
	DefaultConcurrency = 10
	MaxConcurrency     = 200
)

// concurrency returns the number of calls at a time.
func (s *Subscription) concurrency() int {
	if s.By == "" {
		return 1
	}
	return cmp.Or(s.Concurrency, DefaultConcurrency)
}

func (s *Subscription) checkOrder() error {
	switch {
	case s.By != "" && s.By != ByStream:
		return mistakef("deliveries by %q: expected %s", s.By, ByStream)
	case s.By == ByStream && s.Target.Kind == ToQueue:
		return mistakef("subscription %s delivers to %s, which gets all events in order without waiting for their consumer: choose no order of deliveries", s.Name, s.Target)
	case s.Concurrency < 0 || s.Concurrency > MaxConcurrency:
		return mistakef("%d calls at a time: expected 1 to %d, or 0 for %d", s.Concurrency, MaxConcurrency, DefaultConcurrency)
	case s.Concurrency > 1 && s.By == "":
		return mistakef("%d calls at a time: expected deliveries by stream, since one event after another has one call", s.Concurrency)
	}
	return nil
}

// Kind is the kind of a target.
type Kind string

// The targets are a queue, an HTTP endpoint, or a handler in Go.
const (
	ToQueue   Kind = "queue"
	ToURL     Kind = "url"
	ToHandler Kind = "handler"
)

// Target is the receiver of the events.
type Target struct {
	Kind  Kind   `json:"kind"`
	Queue string `json:"queue,omitempty"` // of ToQueue
	URL   string `json:"url,omitempty"`   // of ToURL

	// MaxBacklog is the number of ready messages in the queue at which deliveries wait.
	// 0: DefaultMaxBacklog; negative: no limit.
	MaxBacklog int `json:"max_backlog,omitempty"`
}

// DefaultMaxBacklog is the number of messages that a queue of a subscription has at most.
const DefaultMaxBacklog = 10_000

// String describes the target. Of a URL it has the scheme and the host: path, query and login
// may be a secret, as a web hook's are.
func (t Target) String() string {
	switch t.Kind {
	case ToQueue:
		return "queue " + t.Queue
	case ToURL:
		u, err := url.Parse(t.URL)
		if err != nil {
			return "a URL that cannot be read"
		}
		return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String()
	}
	return "a handler in Go"
}

// causes reports whether the consumer of the target has caused an event. To deliver it would cause more without an end.
func (t Target) causes(e schemas.Event) bool {
	return t.Kind == ToQueue && e.Queue == t.Queue && e.RecordedAction() != schemas.Published
}

func (t Target) check(owns func(name string) bool) error {
	switch t.Kind {
	case ToQueue:
		if t.Queue == "" || len(t.Queue) > 255 {
			return errors.New("expected the name of a queue, of up to 255 bytes")
		}
		if owns(t.Queue) {
			return fmt.Errorf("queue %s is one of Watership's own: expected one of your system", t.Queue)
		}
	case ToURL:
		u, err := url.Parse(t.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return errors.New("expected a URL with http or https and a host")
		}
	case ToHandler:
	default:
		return fmt.Errorf("%q is no target: expected a queue, a URL or a handler", t.Kind)
	}
	return nil
}

// Attempts returns a policy with n attempts, with the delays of a subscription without a policy.
func Attempts(n int) retry.Policy {
	return retry.Policy{First: time.Second, Factor: 4, Cap: time.Minute, Attempts: n}
}

// policy returns the policy for a failure.
func (s *Subscription) policy(failure retry.Failure) retry.Policy {
	if s.Policy == nil {
		return Attempts(failure.Attempt + 1)
	}
	return *s.Policy
}

// Error is a mistake in a subscription or in its name.
type Error struct{ text string }

// Error implements error.
func (e *Error) Error() string { return e.text }

func mistakef(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// NotFoundError reports that there is no subscription of a name.
type NotFoundError struct{ Name string }

// Error implements error.
func (e *NotFoundError) Error() string {
	return "there is no subscription " + e.Name
}

// checkName returns an error if a subscription cannot have the name.
func checkName(name string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`).MatchString(name) {
		return mistakef("%q cannot be the name of a subscription: expected up to 100 letters, digits, dots, dashes and underscores", name)
	}
	return nil
}

// check returns an error if the subscription cannot be run. Other programs may write to the
// store.
func (s *Subscription) check(owns func(name string) bool) error {
	if err := checkName(s.Name); err != nil {
		return err
	}
	if err := s.Target.check(owns); err != nil {
		return mistakef("target of subscription %s: %v", s.Name, err)
	}
	if s.OnPoison != Park && s.OnPoison != ParkStream && s.OnPoison != Stop {
		return mistakef("on poison %q: expected %s, %s or %s", s.OnPoison, Park, ParkStream, Stop)
	}
	if err := s.checkOrder(); err != nil {
		return err
	}
	if _, err := s.Upcast.parse(); err != nil {
		return mistakef("upcast of subscription %s: %v", s.Name, err)
	}
	if s.Policy != nil {
		if err := s.Policy.Validate(); err != nil {
			return mistakef("policy of subscription %s: %v", s.Name, err)
		}
	}
	if _, err := kql.Parse(s.Query); err != nil {
		return mistakef("query of subscription %s: %v", s.Name, err)
	}
	return nil
}

package schemas

import (
	"time"
)

// State is Watership's own data about a message. It travels in headers. The zero
// value is the state of a message that never failed.
type State struct {
	Version     int    // of the format; 0 if no state travelled
	Fingerprint string // identifies the message by its content
	Message     string // instance id, given at the first failure
	Queue       string // the queue that failed, or handled
	Attempt     int    // attempts so far, including the one that this state is about
	FirstFailed time.Time
	Failure     Failure         // of the latest attempt
	Attempts    []FailedAttempt // the newest maxAttempts, oldest first

	// Waits counts the failures that used no attempt, since the service was
	// unavailable; WaitsSince is the time of the first.
	Waits      int
	WaitsSince time.Time

	// Deliveries counts those that had no outcome, as the process ended, where the broker
	// does not. It travels only back to the queue.
	Deliveries int

	// Suspect is whether the message has to be handled alone after many deliveries
	// without an outcome; Deliveries counts from then on. It travels only back to the queue.
	Suspect bool

	// Position is the place of the message among the messages of its key, if it waits for
	// its key or their order is kept: the time of its arrival in nanoseconds, or more. It
	// travels only back to the queue.
	Position int64

	// MissingSince is the time at which the queue was first found missing when the
	// message was due; zero if it existed. It travels only between Watership's
	// queues.
	MissingSince time.Time

	// Elapsed is the part of Delay that the message has waited in earlier delay queues, as
	// their names tell: clocks are set, and differ between processes. It travels only between
	// Watership's queues.
	Elapsed time.Duration

	// NotBefore is the time until which an operator has postponed the next attempt. It
	// travels only between Watership's queues, as Undecided does.
	NotBefore time.Time

	// Undecided is whether an operator has decided about the waiting message, and the
	// decision could not be read when the message left its delay queue.
	Undecided bool

	// Route is whether the queue belongs to a route and is bound to the direct
	// exchange by its name. Park is whether the poison handler publishes a copy to the
	// queue's parking queue. The process that handled the failure sets both, since the
	// processes that move the message further may have other routes.
	Route, Park bool

	// Progress is the progress that the latest attempt reported, at most 4 KiB, for the
	// next one. It travels only back to the queue.
	Progress string

	// OriginClaimed is whether the exchange and routing key of the message are a claim of
	// its consumer, which may not be allowed to publish there.
	OriginClaimed bool

	// Untapped is whether the tap has not seen the message, though it copies the messages that are published
	// to the origin: a replay or a subscription has changed the message and sent it to the queue. Its events
	// have its body.
	Untapped bool

	// Sent is when Watership sent the message to its queue: after a delay, or as a replay.
	// Zero: its publisher did. It travels only back to the queue, and with the events there.
	Sent time.Time

	// Receiver is the key by which the route divides its handlers, such as the receiver of a webhook; "":
	// none. It counts only in events: each delivery finds it again.
	Receiver string

	// Answer is the beginning of the answer to a successful attempt, at most 1 KiB, if the route keeps it.
	// It travels only with events.
	Answer string

	// Started is when the attempt began; zero if that is not known. It travels only with
	// events and to the poison queue.
	Started time.Time

	// Trace is the span of the latest attempt, or of the replay that sent the message, in the form of a W3C
	// traceparent. "": none is known. The next span is linked to it; traceparent in the headers stays the
	// publisher's.
	Trace string

	EventID  string        // id of the event that is about this step
	Time     time.Time     // when the step happened
	Delay    time.Duration // until the next attempt; whole milliseconds
	Duration time.Duration // of the attempt
	Parent   string        // fingerprint of the message whose handler published this one

	Replay   string // id of the replay job
	ReplayOf string // id of the event that the job replayed

	// Stream is the stream of the message. It travels only with a message without its body.
	Stream MessageStream

	// Subscription is the delivery of an event by a subscription.
	Subscription struct {
		Name     string // of the subscription
		Position string // of the event, which is the same in a repeated delivery
		Action   Action // of the event

		ByPriority bool // as of the event
	}

	// Audit is an action of a user, or its refusal, in an `audited` event; and who
	// decided in a `rescheduled` or `triaged` event.
	Audit struct {
		User      string // name of the person or the program
		Method    string // how it was authenticated
		Address   string // of the client
		Client    string // the program that called for the user, as it names itself; "": unknown
		Operation string // such as replay
		Object    string // of the operation
		Reason    string // in the words of the user
		Refused   bool   // or failed; Failure says why
	}

	// Triage is a decision of an operator about a group of failures, in a `triaged` event.
	// Queue and Failure have the values of the group, whose text is the message of Failure;
	// Audit has the operator and the reason.
	Triage struct {
		Group    string // id of the group
		Decision string // such as muted
		Assignee string
		Until    time.Time // muted up to this time; zero: without an end
		Count    int       // the further failure that ends the mute; 0: none does
		UpTo     int64     // resolved up to the failure with this sequence
	}
}

// Failure is the reason why an attempt failed.
type Failure struct {
	Message string // shortened to 1 KiB on the wire
	Type    string
	Class   string // selects the delays within a policy
	Rule    string // of the configuration that chose Class; "": none
	Group   string // of failures of one kind; "": follows from Message
	Stack   string // shortened to 8 KiB on the wire
}

// FailedAttempt is one entry in a message's history of attempts.
type FailedAttempt struct {
	Time  time.Time `json:"time"`
	Class string    `json:"class,omitempty"`
}

// maxAttempts limits the history that travels.
const maxAttempts = 32

// Failed returns the state after one more attempt failed at a queue.
func (s State) Failed(at time.Time, took time.Duration, queue string, why Failure) State {
	s.Queue = queue
	s.Attempt++
	s.Failure = why
	s.Time = at
	s.Duration = took
	if s.FirstFailed.IsZero() {
		s.FirstFailed = at
	}
	history := append(s.Attempts[:len(s.Attempts):len(s.Attempts)], FailedAttempt{at, why.Class})
	s.Attempts = history[max(0, len(history)-maxAttempts):]
	return s
}

// Waited returns the state after one more wait for an unavailable service.
func (s State) Waited(at time.Time) State {
	s.Waits++
	if s.WaitsSince.IsZero() {
		s.WaitsSince = at
	}
	return s
}

// AwaitsKey reports whether the message waits since others of its key fail: it was not tried, and the failure is theirs.
func (s State) AwaitsKey() bool {
	return s.Waits == 0 && !s.WaitsSince.IsZero() && s.WaitsSince.Equal(s.Time)
}

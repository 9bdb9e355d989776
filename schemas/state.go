package schemas

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
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
	// to the origin: a replay has changed the message and sent it to the queue. Its events
	// have its body.
	Untapped bool

	// Sent is when Watership sent the message to its queue: after a delay, or as a replay.
	// Zero: its publisher did. It travels only back to the queue, and with the events there.
	Sent time.Time

	// Started is when the attempt began; zero if that is not known. It travels only with
	// events and to the poison queue.
	Started time.Time

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

// ReturnArguments returns the arguments of a binding of the exchange Return to the queue: it
// routes by the header with the name of the queue whose consumer failed.
func (s State) ReturnArguments() amqp.Table {
	return amqp.Table{"x-match": "all", headerQueue: s.Queue}
}

func (s State) write(h typedTable) {
	h.setInt(headerVersion, WireVersion)
	h.setText(headerFingerprint, s.Fingerprint)
	h.setText(headerMessage, s.Message)
	h.setText(headerQueue, s.Queue)
	h.setInt(headerAttempt, int64(s.Attempt))
	h.setTime(headerFirstFailed, s.FirstFailed)
	h.setText(headerError, shorten(s.Failure.Message, errorBudget))
	h.setText(headerErrorType, shorten(s.Failure.Type, errorBudget/4))
	h.setText(headerErrorClass, shorten(s.Failure.Class, errorBudget/4))
	h.setText(headerErrorRule, shorten(s.Failure.Rule, errorBudget/4))
	h.setText(headerErrorGroup, s.Failure.travellingGroup(s.Queue))
	h.setText(headerStack, shorten(s.Failure.Stack, stackBudget))
	h.setText(headerEventID, s.EventID)
	h.setTime(headerTime, s.Time)
	h.setInt(headerDelay, s.Delay.Milliseconds())
	h.setInt(headerWaits, int64(s.Waits))
	h.setTime(headerWaitsSince, s.WaitsSince)
	h.setInt(headerDeliveries, int64(s.Deliveries))
	h.setFlag(headerSuspect, s.Suspect)
	h.setInt(headerPosition, s.Position)
	h.setTime(headerMissing, s.MissingSince)
	h.setInt(headerElapsed, s.Elapsed.Milliseconds())
	h.setTime(headerNotBefore, s.NotBefore)
	h.setFlag(headerUndecided, s.Undecided)
	h.setFlag(headerRoute, s.Route)
	h.setFlag(headerPark, s.Park)
	h.setText(headerProgress, wholeOrNothing(s.Progress, progressBudget))
	h.setFlag(headerClaimed, s.OriginClaimed)
	h.setFlag(headerUntapped, s.Untapped)
	h.setTime(headerSent, s.Sent)
	h.setTime(headerStarted, s.Started)
	h.setInt(headerDuration, s.Duration.Nanoseconds())
	h.setText(headerParent, s.Parent)
	h.setText(headerReplay, s.Replay)
	h.setText(headerReplayOf, s.ReplayOf)
	s.Stream.write(h)
	h.setText(headerSubscription, s.Subscription.Name)
	h.setText(headerSubscribedAt, s.Subscription.Position)
	h.setText(headerSubscribed, string(s.Subscription.Action))
	if s.Subscription.ByPriority {
		h.setText(headerSubOrder, orderByPriority)
	}
	s.writeAudit(h)
	s.writeTriage(h)
	if len(s.Attempts) > 0 {
		h[headerAttempts] = writeAttempts(s.Attempts)
	}
}

func readState(h typedTable) State {
	state := bounded(State{
		Version:     int(h.int(headerVersion)),
		Fingerprint: h.text(headerFingerprint),
		Message:     h.text(headerMessage),
		Queue:       h.text(headerQueue),
		Attempt:     int(h.int(headerAttempt)),
		FirstFailed: h.time(headerFirstFailed),
		Failure: Failure{
			Message: h.text(headerError), Type: h.text(headerErrorType), Stack: h.text(headerStack),
			Class: h.text(headerErrorClass), Rule: h.text(headerErrorRule), Group: h.text(headerErrorGroup),
		},
		EventID:  h.text(headerEventID),
		Time:     h.time(headerTime),
		Delay:    h.delay(headerDelay),
		Elapsed:  h.delay(headerElapsed),
		Sent:     h.time(headerSent),
		Started:  h.time(headerStarted),
		Duration: time.Duration(h.int(headerDuration)),
		Parent:   h.text(headerParent),
		Replay:   h.text(headerReplay), ReplayOf: h.text(headerReplayOf),
		Attempts: readAttempts(h[headerAttempts]),
		Progress: h.text(headerProgress),
		Stream:   readMessageStream(h),

		OriginClaimed: h.int(headerClaimed) == 1, Untapped: h.int(headerUntapped) == 1,

		Waits: int(h.int(headerWaits)), WaitsSince: h.time(headerWaitsSince),

		Deliveries: int(h.int(headerDeliveries)),
		Suspect:    h.int(headerSuspect) == 1,
		Position:   h.int(headerPosition),

		MissingSince: h.time(headerMissing),
		NotBefore:    h.time(headerNotBefore), Undecided: h.int(headerUndecided) == 1,

		Route: h.int(headerRoute) == 1, Park: h.int(headerPark) == 1,
	})
	s := &state.Subscription
	s.Name, s.Position = wholeOrNothing(h.text(headerSubscription), longestName), wholeOrNothing(h.text(headerSubscribedAt), longestName+longestID)
	s.Action = Action(wholeOrNothing(h.text(headerSubscribed), longestName))
	s.ByPriority = h.text(headerSubOrder) == orderByPriority
	return state
}

const (
	mostCounted  = 1 << 20 // attempts, or waits
	longestDelay = (1<<32 - 1) * time.Millisecond
	longestName  = 255 // bytes, of the name of a queue or an instance
)

// bounded limits the values of a state to the range that Watership itself writes,
// since a publisher can write any.
func bounded(s State) State {
	s.Version = max(0, s.Version)
	s.Attempt = min(max(0, s.Attempt), mostCounted)
	s.Waits = min(max(0, s.Waits), mostCounted)
	s.Deliveries = min(max(0, s.Deliveries), mostCounted)
	s.Position = max(0, s.Position)
	s.Delay = min(max(0, s.Delay), longestDelay)
	s.Elapsed = min(max(0, s.Elapsed), longestDelay)
	s.Duration = max(0, s.Duration)
	s.Attempts = s.Attempts[max(0, len(s.Attempts)-maxAttempts):]
	for _, at := range []*time.Time{&s.FirstFailed, &s.Time, &s.WaitsSince, &s.MissingSince, &s.NotBefore, &s.Sent, &s.Started} {
		*at = storable(*at)
	}
	for _, name := range []*string{&s.Message, &s.Queue, &s.Parent} {
		*name = shorten(*name, longestName)
	}
	s.Progress = wholeOrNothing(s.Progress, progressBudget)
	why := &s.Failure
	why.Message, why.Stack = shorten(why.Message, errorBudget), shorten(why.Stack, stackBudget)
	why.Type, why.Class = shorten(why.Type, errorBudget/4), shorten(why.Class, errorBudget/4)
	why.Rule, why.Group = shorten(why.Rule, errorBudget/4), groupText(why.Group)
	return s
}

func writeAttempts(attempts []FailedAttempt) []any {
	list := make([]any, len(attempts))
	for i, a := range attempts {
		entry := typedTable{}
		entry.setTime("time", a.Time)
		entry.setText("class", shorten(a.Class, errorBudget/8))
		list[i] = amqp.Table(entry)
	}
	return list
}

func readAttempts(value any) []FailedAttempt {
	list, _ := value.([]any)
	var attempts []FailedAttempt
	for _, element := range list {
		if table, ok := element.(amqp.Table); ok {
			entry := typedTable(table)
			attempts = append(attempts, FailedAttempt{entry.time("time"), entry.text("class")})
		}
	}
	return attempts
}

package schemas

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// State is what Watership knows of a message beside its envelope. It travels
// in headers. The zero value is the state of a message that never failed.
type State struct {
	Version     int    // of the format; 0 where no state travelled
	Fingerprint string // what the message is known by
	Message     string // instance id, given at the first failure
	Queue       string // the queue that failed, or handled
	Attempt     int    // attempts so far, the one that this state is about included
	FirstFailed time.Time
	Failure     Failure         // of the latest attempt
	Attempts    []FailedAttempt // the newest maxAttempts, oldest first

	// Waits counts the failures that lost no attempt, since the service was
	// unavailable; WaitsSince is the time of the first.
	Waits      int
	WaitsSince time.Time

	// MissingSince is when the queue was first found gone as the message was due; zero
	// where it was there. It travels between our own queues alone.
	MissingSince time.Time

	EventID  string        // id of the event that is about this step
	Time     time.Time     // when the step happened
	Delay    time.Duration // until the next attempt; whole milliseconds
	Duration time.Duration // of the attempt
	Parent   string        // fingerprint of the message whose handler published this one

	Replay   string // the job that sent it again
	ReplayOf string // the event that the job was about
}

// Failure is why an attempt failed.
type Failure struct {
	Message string // shortened to 1 KiB on the wire
	Type    string
	Class   string // chooses the delays within a policy
	Stack   string // shortened to 8 KiB on the wire
}

// FailedAttempt is one line of a message's history.
type FailedAttempt struct {
	Time  time.Time `json:"time"`
	Class string    `json:"class,omitempty"`
}

// maxAttempts bounds the history that travels.
const maxAttempts = 32

// Failed is the state after one more attempt failed at a queue.
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

// Waited is the state after the message waited once more for an unavailable
// service.
func (s State) Waited(at time.Time) State {
	s.Waits++
	if s.WaitsSince.IsZero() {
		s.WaitsSince = at
	}
	return s
}

func (s State) write(h ours) {
	h.setInt(headerVersion, WireVersion)
	h.setText(headerFingerprint, s.Fingerprint)
	h.setText(headerMessage, s.Message)
	h.setText(headerQueue, s.Queue)
	h.setInt(headerAttempt, int64(s.Attempt))
	h.setTime(headerFirstFailed, s.FirstFailed)
	h.setText(headerError, shorten(s.Failure.Message, errorBudget))
	h.setText(headerErrorType, shorten(s.Failure.Type, errorBudget/4))
	h.setText(headerErrorClass, shorten(s.Failure.Class, errorBudget/4))
	h.setText(headerStack, shorten(s.Failure.Stack, stackBudget))
	h.setText(headerEventID, s.EventID)
	h.setTime(headerTime, s.Time)
	h.setInt(headerDelay, s.Delay.Milliseconds())
	h.setInt(headerWaits, int64(s.Waits))
	h.setTime(headerWaitsSince, s.WaitsSince)
	h.setTime(headerMissing, s.MissingSince)
	h.setInt(headerDuration, s.Duration.Nanoseconds())
	h.setText(headerParent, s.Parent)
	h.setText(headerReplay, s.Replay)
	h.setText(headerReplayOf, s.ReplayOf)
	if len(s.Attempts) > 0 {
		h[headerAttempts] = writeAttempts(s.Attempts)
	}
}

func readState(h ours) State {
	return bounded(State{
		Version:     int(h.int(headerVersion)),
		Fingerprint: h.text(headerFingerprint),
		Message:     h.text(headerMessage),
		Queue:       h.text(headerQueue),
		Attempt:     int(h.int(headerAttempt)),
		FirstFailed: h.time(headerFirstFailed),
		Failure: Failure{
			Message: h.text(headerError),
			Type:    h.text(headerErrorType),
			Class:   h.text(headerErrorClass),
			Stack:   h.text(headerStack),
		},
		EventID:  h.text(headerEventID),
		Time:     h.time(headerTime),
		Delay:    time.Duration(min(max(0, h.int(headerDelay)), longestDelay.Milliseconds())) * time.Millisecond,
		Duration: time.Duration(h.int(headerDuration)),
		Parent:   h.text(headerParent),
		Replay:   h.text(headerReplay),
		ReplayOf: h.text(headerReplayOf),
		Attempts: readAttempts(h[headerAttempts]),

		Waits:      int(h.int(headerWaits)),
		WaitsSince: h.time(headerWaitsSince),

		MissingSince: h.time(headerMissing),
	})
}

const (
	mostCounted  = 1 << 20 // attempts, or waits
	longestDelay = (1<<32 - 1) * time.Millisecond
	longestName  = 255 // bytes, of what names a queue or an instance
)

// bounded is a state within the bounds of those that Watership writes: what reads it
// need not expect a publisher's.
func bounded(s State) State {
	s.Version = max(0, s.Version)
	s.Attempt = min(max(0, s.Attempt), mostCounted)
	s.Waits = min(max(0, s.Waits), mostCounted)
	s.Delay = min(max(0, s.Delay), longestDelay)
	s.Duration = max(0, s.Duration)
	s.Attempts = s.Attempts[max(0, len(s.Attempts)-maxAttempts):]
	for _, at := range []*time.Time{&s.FirstFailed, &s.Time, &s.WaitsSince, &s.MissingSince} {
		*at = storable(*at)
	}
	for _, name := range []*string{&s.Message, &s.Queue, &s.Parent} {
		*name = shorten(*name, longestName)
	}
	why := &s.Failure
	why.Message, why.Stack = shorten(why.Message, errorBudget), shorten(why.Stack, stackBudget)
	why.Type, why.Class = shorten(why.Type, errorBudget/4), shorten(why.Class, errorBudget/4)
	return s
}

func writeAttempts(attempts []FailedAttempt) []any {
	list := make([]any, len(attempts))
	for i, a := range attempts {
		entry := ours{}
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
			entry := ours(table)
			attempts = append(attempts, FailedAttempt{entry.time("time"), entry.text("class")})
		}
	}
	return attempts
}

package wire

import (
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// ReturnArguments returns the arguments of a binding of the exchange Return to the queue: it
// routes by the header with the name of the queue whose consumer failed.
func ReturnArguments(queue string) amqp.Table {
	return amqp.Table{"x-match": "all", headerQueue: queue}
}

func writeState(s schemas.State, h header.Table) {
	h.SetInt(headerVersion, header.Version)
	h.SetText(headerFingerprint, s.Fingerprint)
	h.SetText(headerMessage, s.Message)
	h.SetText(headerQueue, s.Queue)
	h.SetInt(headerAttempt, int64(s.Attempt))
	h.SetTime(headerFirstFailed, s.FirstFailed)
	h.SetText(headerError, header.Shorten(s.Failure.Message, errorBudget))
	h.SetText(headerErrorType, header.Shorten(s.Failure.Type, errorBudget/4))
	h.SetText(headerErrorClass, header.Shorten(s.Failure.Class, errorBudget/4))
	h.SetText(headerErrorRule, header.Shorten(s.Failure.Rule, errorBudget/4))
	h.SetText(headerErrorGroup, travellingGroup(s.Failure, s.Queue))
	h.SetText(headerStack, header.Shorten(s.Failure.Stack, stackBudget))
	h.SetText(headerEventID, s.EventID)
	h.SetTime(headerTime, s.Time)
	h.SetInt(headerDelay, s.Delay.Milliseconds())
	h.SetInt(headerWaits, int64(s.Waits))
	h.SetTime(headerWaitsSince, s.WaitsSince)
	h.SetInt(headerDeliveries, int64(s.Deliveries))
	h.SetFlag(headerSuspect, s.Suspect)
	h.SetInt(headerPosition, s.Position)
	h.SetTime(headerMissing, s.MissingSince)
	h.SetInt(headerElapsed, s.Elapsed.Milliseconds())
	h.SetTime(headerNotBefore, s.NotBefore)
	h.SetFlag(headerUndecided, s.Undecided)
	h.SetFlag(headerRoute, s.Route)
	h.SetFlag(headerPark, s.Park)
	h.SetText(headerProgress, wholeOrNothing(s.Progress, progressBudget))
	h.SetFlag(headerClaimed, s.OriginClaimed)
	h.SetFlag(headerUntapped, s.Untapped)
	h.SetTime(headerSent, s.Sent)
	h.SetTime(headerStarted, s.Started)
	h.SetText(headerReceiver, s.Receiver)
	h.SetText(headerAnswer, header.Shorten(s.Answer, errorBudget))
	h.SetText(headerTrace, s.Trace)
	h.SetInt(headerDuration, s.Duration.Nanoseconds())
	h.SetText(headerParent, s.Parent)
	h.SetText(headerReplay, s.Replay)
	h.SetText(headerReplayOf, s.ReplayOf)
	writeStream(s.Stream, h)
	h.SetText(headerSubscription, s.Subscription.Name)
	h.SetText(headerSubscribedAt, s.Subscription.Position)
	h.SetText(headerSubscribed, string(s.Subscription.Action))
	if s.Subscription.ByPriority {
		h.SetText(headerSubOrder, orderByPriority)
	}
	writeAudit(s, h)
	writeTriage(s, h)
	if len(s.Attempts) > 0 {
		h[headerAttempts] = writeAttempts(s.Attempts)
	}
}

func readState(h header.Table) schemas.State {
	state := bounded(schemas.State{
		Version:     int(h.Int(headerVersion)),
		Fingerprint: h.Text(headerFingerprint),
		Message:     h.Text(headerMessage),
		Queue:       h.Text(headerQueue),
		Attempt:     int(h.Int(headerAttempt)),
		FirstFailed: h.Time(headerFirstFailed),
		Failure: schemas.Failure{
			Message: h.Text(headerError), Type: h.Text(headerErrorType), Stack: h.Text(headerStack),
			Class: h.Text(headerErrorClass), Rule: h.Text(headerErrorRule), Group: h.Text(headerErrorGroup),
		},
		EventID:  h.Text(headerEventID),
		Time:     h.Time(headerTime),
		Delay:    h.Delay(headerDelay),
		Elapsed:  h.Delay(headerElapsed),
		Sent:     h.Time(headerSent),
		Started:  h.Time(headerStarted),
		Receiver: h.Text(headerReceiver),
		Answer:   h.Text(headerAnswer),
		Trace:    h.Text(headerTrace),
		Duration: time.Duration(h.Int(headerDuration)),
		Parent:   h.Text(headerParent),
		Replay:   h.Text(headerReplay), ReplayOf: h.Text(headerReplayOf),
		Attempts: readAttempts(h[headerAttempts]),
		Progress: h.Text(headerProgress),
		Stream:   readMessageStream(h),

		OriginClaimed: h.Int(headerClaimed) == 1, Untapped: h.Int(headerUntapped) == 1,

		Waits: int(h.Int(headerWaits)), WaitsSince: h.Time(headerWaitsSince),

		Deliveries: int(h.Int(headerDeliveries)),
		Suspect:    h.Int(headerSuspect) == 1,
		Position:   h.Int(headerPosition),

		MissingSince: h.Time(headerMissing),
		NotBefore:    h.Time(headerNotBefore), Undecided: h.Int(headerUndecided) == 1,

		Route: h.Int(headerRoute) == 1, Park: h.Int(headerPark) == 1,
	})
	s := &state.Subscription
	s.Name, s.Position = wholeOrNothing(h.Text(headerSubscription), longestName), wholeOrNothing(h.Text(headerSubscribedAt), longestName+longestID)
	s.Action = schemas.Action(wholeOrNothing(h.Text(headerSubscribed), longestName))
	s.ByPriority = h.Text(headerSubOrder) == orderByPriority
	return state
}

// orderByPriority is the value of headerSubOrder of an event with ByPriority.
const orderByPriority = "priority"

const (
	mostCounted  = 1 << 20 // attempts, or waits
	mostAttempts = 32      // in the history, as State.Failed keeps
	longestName  = 255     // bytes, of the name of a queue or an instance
)

// bounded limits the values of a state to the range that Watership itself writes,
// since a publisher can write any.
func bounded(s schemas.State) schemas.State {
	s.Version = max(0, s.Version)
	s.Attempt = min(max(0, s.Attempt), mostCounted)
	s.Waits = min(max(0, s.Waits), mostCounted)
	s.Deliveries = min(max(0, s.Deliveries), mostCounted)
	s.Position = max(0, s.Position)
	s.Delay = min(max(0, s.Delay), header.LongestDelay)
	s.Elapsed = min(max(0, s.Elapsed), header.LongestDelay)
	s.Duration = max(0, s.Duration)
	s.Attempts = s.Attempts[max(0, len(s.Attempts)-mostAttempts):]
	for _, name := range []*string{&s.Message, &s.Queue, &s.Parent, &s.Receiver} {
		*name = header.Shorten(*name, longestName)
	}
	s.Progress, s.Answer = wholeOrNothing(s.Progress, progressBudget), header.Shorten(s.Answer, errorBudget)
	s.Trace = traceparent(s.Trace)
	why := &s.Failure
	why.Message, why.Stack = header.Shorten(why.Message, errorBudget), header.Shorten(why.Stack, stackBudget)
	why.Type, why.Class = header.Shorten(why.Type, errorBudget/4), header.Shorten(why.Class, errorBudget/4)
	why.Rule, why.Group = header.Shorten(why.Rule, errorBudget/4), groupOf(*why)
	return s
}

// traceparent returns a text that has the form of a W3C traceparent of version 0; "" for any other.
func traceparent(text string) string {
	parts := strings.Split(text, "-")
	if len(text) != traceLength || strings.Trim(text, "0123456789abcdef-") != "" || len(parts) != 4 ||
		parts[0] != "00" || len(parts[1]) != 32 || len(parts[2]) != 16 {
		return ""
	}
	return text
}

func writeAttempts(attempts []schemas.FailedAttempt) []any {
	list := make([]any, len(attempts))
	for i, a := range attempts {
		entry := header.Table{}
		entry.SetTime("time", a.Time)
		entry.SetText("class", header.Shorten(a.Class, errorBudget/8))
		list[i] = amqp.Table(entry)
	}
	return list
}

func readAttempts(value any) []schemas.FailedAttempt {
	list, _ := value.([]any)
	var attempts []schemas.FailedAttempt
	for _, element := range list {
		if table, ok := element.(amqp.Table); ok {
			entry := header.Table(table)
			attempts = append(attempts, schemas.FailedAttempt{Time: entry.Time("time"), Class: entry.Text("class")})
		}
	}
	return attempts
}

// groupOf returns the group that a failure has, in the form of ErrorGroup; "" if it has none.
func groupOf(why schemas.Failure) string {
	if why.Group == "" {
		return ""
	}
	return why.ErrorGroup()
}

// travellingGroup returns the group that travels with a failure at a queue: one that its handler
// named, or of a message that does not travel as a whole.
func travellingGroup(f schemas.Failure, queue string) string {
	if f.Group == "" && len(f.Message) <= errorBudget {
		return ""
	}
	return f.ErrorGroup(queue)
}

// longestID is the longest id of an event that Event.Check accepts.
const longestID = 512 // bytes

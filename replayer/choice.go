package replayer

import "github.com/watershipmq/watership/schemas"

// choice sees to it that each message is sent once, however many of its events
// a query matches.
type choice struct {
	target Target
	own    func(exchange string) bool // whether an exchange is one of ours
	taken  set

	// published has the fingerprints of messages without an id of which a
	// `published` event is sent: their other events are about the same messages.
	published set
}

func newChoice(target Target, own func(exchange string) bool) *choice {
	return &choice{target: target, own: own}
}

// Reasons for leaving an event out.
const (
	sameMessage     = "another event of the same message"
	noQueue         = "no queue failed: the event is not about a failure"
	noMessage       = "quarantined, and not about a message that can be sent"
	aGap            = "about no message: a gap in the record"
	unreadable      = "the document cannot be read"
	alreadyReplayed = "already replayed (--again sends them too)"
	handledSince    = "failed and handled since (--again sends them too)"
	discardedSince  = "failed and discarded since (--again sends them too)"
	replayedSince   = "replayed by another job meanwhile"
	beyondLimit     = "beyond the limit"
)

// take says whether the message of an event is to be sent now, or why not: that the
// failure is resolved counts unless another event sends the message.
func (c *choice) take(e schemas.Event, resolved string) (leftOut string) {
	identity := c.target.identity(e)
	switch {
	case c.target.Kind == ToFailedQueue && !failedAtQueue(e):
		return noQueue
	case facts(e) == schemas.Dropped:
		return aGap
	case e.Action == schemas.Quarantined && c.own(e.Envelope.Exchange):
		return noMessage
	case c.anonymousFailure(e) && c.published.has(keyOf(e.Fingerprint)):
		return sameMessage
	case c.taken.has(identity):
		return sameMessage
	case resolved != "":
		return resolved
	}
	c.taken.add(identity)
	return ""
}

// failedAtQueue: a queue that handled a message, or to which a job has sent it, did
// not fail for that, though its events name it.
func failedAtQueue(e schemas.Event) bool {
	action := facts(e)
	return e.Queue != "" && action != schemas.Handled && action != schemas.Replayed
}

// identity: a message with an id is known by its content and where it is sent;
// of those without, each publishing is a message, and else each instance. A
// copy that an earlier job sent, and the `replayed` event of that job, are
// about the message that the job was about.
func (t Target) identity(e schemas.Event) key {
	target := t.of(e)
	action := facts(e)
	switch {
	case e.Envelope.Properties.MessageID != "":
		return keyOf("id", e.Fingerprint, target)
	case action == schemas.Published && e.ReplayOf != "":
		return keyOf("event", e.ReplayOf, target)
	case action == schemas.Published:
		return keyOf("event", e.EventID, target)
	case e.Message != "":
		return keyOf("instance", e.Message, target)
	case action == schemas.Replayed:
		return keyOf("event", e.ReplayOf, target)
	}
	return keyOf("event", e.EventID, target)
}

// anonymousFailure is an event, of a message without an id, that does not say
// which of several equal messages it is about.
func (c *choice) anonymousFailure(e schemas.Event) bool {
	return e.Envelope.Properties.MessageID == "" && facts(e) != schemas.Published
}

// facts is what happened to the message: of a quarantined event, what that
// stands for.
func facts(e schemas.Event) schemas.Action {
	if e.Action == schemas.Quarantined {
		return e.QuarantinedAction
	}
	return e.Action
}

// note remembers what the whole selection holds before anything is sent. To
// the queue that failed goes the failure and no copy that was only published.
func (c *choice) note(e schemas.Event) {
	if e.Envelope.Properties.MessageID == "" && facts(e) == schemas.Published && c.target.Kind != ToFailedQueue {
		c.published.add(keyOf(e.Fingerprint))
	}
}

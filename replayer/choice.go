package replayer

import "github.com/watershipmq/watership/schemas"

// choice sees to it that each message is sent once, however many of its events
// a query matches.
type choice struct {
	target Target
	own    func(name string) bool // whether an exchange or a queue is one of ours
	taken  set

	// published has the fingerprints of messages without an id of which a
	// `published` event is sent: their other events are about the same messages.
	published set
}

func newChoice(target Target, own func(name string) bool) *choice {
	return &choice{target: target, own: own}
}

// Reasons for leaving an event out.
const (
	sameMessage     = "another event of the same message"
	noQueue         = "no queue failed: the event is not about a failure"
	noMessage       = "quarantined, and not about a message that can be sent"
	ofNoMessage     = "about no message, but about the record or a route"
	placeOfOurs     = "the place to send it to is Watership's own (--to-queue sends it elsewhere)"
	unreadable      = "the document cannot be read"
	alreadyReplayed = "already replayed (--again sends them too)"
	handledSince    = "failed and handled since (--again sends them too)"
	discardedSince  = "failed and discarded since (--again sends them too)"
	stillTried      = "failed and tried again soon (--again sends them too)"
	replayedSince   = "replayed by another job meanwhile"
	beyondLimit     = "beyond the limit"
)

// take says whether the message of an event is to be sent now, or why not: that the
// failure is resolved counts unless another event sends the message.
func (c *choice) take(f *found, resolved string) (leftOut string) {
	e := f.event
	switch {
	case c.target.Kind == ToFailedQueue && !failedAtQueue(e):
		return noQueue
	case facts(e).OfNoMessage():
		return ofNoMessage
	case e.Action == schemas.Quarantined && c.own(e.Envelope.Exchange):
		return noMessage
	case c.target.route(e).isOf(c.own):
		return placeOfOurs
	case c.anonymousFailure(e) && c.published.has(keyOf(f.origin)):
		return sameMessage
	case c.taken.has(f.message):
		return sameMessage
	case resolved != "":
		return resolved
	}
	c.taken.add(f.message)
	return ""
}

// failedAtQueue: a queue that handled a message, or to which a job has sent it, did
// not fail for that, though its events name it.
func failedAtQueue(e schemas.Event) bool {
	action := facts(e)
	return e.Queue != "" && action != schemas.Handled && action != schemas.Replayed
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

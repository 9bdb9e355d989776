package replayer

import "github.com/watershipmq/watership/schemas"

// selector sees to it that each message is sent once, however many of its events
// a query matches.
type selector struct {
	target   Target
	isOwn    func(name string) bool // whether an exchange or a queue is one of ours
	selected set

	// published has the fingerprints of messages without an id of which a
	// `published` event is sent: their other events are about the same messages.
	published set
}

func newSelector(target Target, isOwn func(name string) bool) *selector {
	return &selector{target: target, isOwn: isOwn}
}

// Reasons for leaving an event out.
const (
	sameMessage          = "another event of the same message"
	noQueue              = "no queue failed: the event is not about a failure"
	quarantinedNoMessage = "quarantined, and not about a message that can be sent"
	noMessageOfItsOwn    = "about no message, but about the record or a route"
	ownTarget            = "the place to send it to is Watership's own (--to-queue sends it elsewhere)"
	unreadable           = "the document cannot be read"
	alreadyReplayed      = "already replayed (--again sends them too)"
	handledSince         = "failed and handled since (--again sends them too)"
	discardedSince       = "failed and discarded since (--again sends them too)"
	retryScheduled       = "failed and tried again soon (--again sends them too)"
	replayedSince        = "replayed by another job meanwhile"
	beyondLimit          = "beyond the limit"
)

// selectMessage says whether the message of an event is to be sent now, or why not: that the
// failure is resolved counts unless another event sends the message.
func (s *selector) selectMessage(c *candidate, resolved string) (leftOut string) {
	e := c.event
	switch {
	case s.target.Kind == ToFailedQueue && !failedAtQueue(e):
		return noQueue
	case recordedAction(e).OfNoMessage():
		return noMessageOfItsOwn
	case e.Action == schemas.Quarantined && s.isOwn(e.Envelope.Exchange):
		return quarantinedNoMessage
	case s.target.route(e).leadsTo(s.isOwn):
		return ownTarget
	case s.failureWithoutID(e) && s.published.has(keyOf(c.originFingerprint)):
		return sameMessage
	case s.selected.has(c.message):
		return sameMessage
	case resolved != "":
		return resolved
	}
	s.selected.add(c.message)
	return ""
}

// failedAtQueue: a queue that handled a message, or to which a job has sent it, did
// not fail for that, though its events name it.
func failedAtQueue(e schemas.Event) bool {
	action := recordedAction(e)
	return e.Queue != "" && action != schemas.Handled && action != schemas.Replayed
}

// failureWithoutID is an event, of a message without an id, that does not say
// which of several equal messages it is about.
func (s *selector) failureWithoutID(e schemas.Event) bool {
	return e.Envelope.Properties.MessageID == "" && recordedAction(e) != schemas.Published
}

// recordedAction is what happened to the message: of a quarantined event, what that
// stands for.
func recordedAction(e schemas.Event) schemas.Action {
	if e.Action == schemas.Quarantined {
		return e.QuarantinedAction
	}
	return e.Action
}

// notePublished remembers what the whole selection holds before anything is sent. To
// the queue that failed goes the failure and no copy that was only published.
func (s *selector) notePublished(e schemas.Event) {
	if e.Envelope.Properties.MessageID == "" && recordedAction(e) == schemas.Published && s.target.Kind != ToFailedQueue {
		s.published.add(keyOf(e.Fingerprint))
	}
}

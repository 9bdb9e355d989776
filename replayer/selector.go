package replayer

import (
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// selector selects each message once, even if several of its events match the query.
type selector struct {
	target   Target
	isOwn    func(name string) bool      // whether an exchange or queue is Watership's
	folds    func(schemas.Envelope) bool // whether a message is a dead letter with the fingerprint of its first publish
	selected storeread.Set

	// published has the fingerprints of messages without an id that are sent by their
	// `published` events: the other events of the same fingerprint are left out.
	published storeread.Set
}

func newSelector(target Target, isOwn func(name string) bool, folds func(schemas.Envelope) bool) *selector {
	return &selector{target: target, isOwn: isOwn, folds: folds}
}

// selectMessage selects the message of an event, or returns the reason for leaving it
// out. A resolved failure is the last reason, so that another event can still select
// the message.
func (s *selector) selectMessage(c *candidate, resolved Reason) (leftOut Reason) {
	e := c.event
	switch {
	case s.target.Kind == ToFailedQueue && !failedAtQueue(e):
		return NoQueueFailed
	case e.RecordedAction().OfNoMessage():
		return NotAboutMessage
	case e.Action == schemas.Quarantined && s.isOwn(e.Envelope.Exchange):
		return QuarantinedRecord
	case s.target.route(e).leadsTo(s.isOwn):
		return OwnTarget
	case s.copyWithoutID(e) && s.published.Has(storeread.Of(c.originFingerprint)):
		return SameMessage
	case s.selected.Has(c.messageKey):
		return SameMessage
	case resolved != "":
		return resolved
	}
	s.selected.Add(c.messageKey)
	return ""
}

// failedAtQueue reports whether the message failed at the queue of the event. A queue
// that handled a message, or to which a job sent it, did not fail.
func failedAtQueue(e schemas.Event) bool {
	action := e.RecordedAction()
	return e.Queue != "" && action != schemas.Handled && action != schemas.Replayed
}

// copyWithoutID reports whether an event of a message without an id cannot tell which of
// several equal messages it concerns: a failure, or a dead letter that came back.
func (s *selector) copyWithoutID(e schemas.Event) bool {
	return e.Envelope.Properties.MessageID == "" && (e.RecordedAction() != schemas.Published || s.folds(e.Envelope))
}

// notePublished notes a `published` event of a message without an id before anything
// is sent. For the target ToFailedQueue the failure counts, not the published copy.
func (s *selector) notePublished(e schemas.Event) {
	if e.Envelope.Properties.MessageID == "" && e.RecordedAction() == schemas.Published && s.target.Kind != ToFailedQueue && !s.folds(e.Envelope) {
		s.published.Add(storeread.Of(e.Fingerprint))
	}
}

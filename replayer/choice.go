package replayer

import (
	"crypto/sha256"

	"github.com/watershipmq/watership/schemas"
)

// key is 16 bytes, since one is kept of each message that a job sends.
type key [16]byte

func keyOf(parts ...string) key {
	h := sha256.New()
	for _, part := range parts {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return key(h.Sum(nil)[:16])
}

// choice sees to it that each message is sent once, however many of its events
// a query matches.
type choice struct {
	target Target
	taken  map[key]struct{}

	// published has the fingerprints of messages without an id of which a
	// `published` event is sent: their other events are about the same messages.
	published map[key]struct{}
}

func newChoice(target Target) *choice {
	return &choice{target, map[key]struct{}{}, map[key]struct{}{}}
}

// Reasons for leaving an event out.
const (
	sameMessage = "another event of the same message"
	noQueue     = "no queue failed: the event is not about a failure"
	bodyAway    = "the body is too large for the store and is in the queue of unstorable messages"
)

// take says whether the message of an event is to be sent now, or why not.
func (c *choice) take(e schemas.Event) (leftOut string) {
	switch {
	case c.target == ToFailedQueue && e.Queue == "":
		return noQueue
	case e.BodyIn == schemas.BodyInUnstorable:
		return bodyAway
	}
	k := c.identity(e)
	if _, again := c.taken[k]; again {
		return sameMessage
	}
	if _, asPublished := c.published[keyOf(e.Fingerprint)]; asPublished && c.anonymousFailure(e) {
		return sameMessage
	}
	c.taken[k] = struct{}{}
	return ""
}

// identity: a message with an id is known by its content and where it is sent;
// of those without, each publishing is a message, and else each instance.
func (c *choice) identity(e schemas.Event) key {
	target := ""
	if c.target == ToFailedQueue {
		target = e.Queue
	}
	switch {
	case e.Envelope.Properties.MessageID != "":
		return keyOf("id", e.Fingerprint, target)
	case e.Action == schemas.Published && e.ReplayOf != "": // a copy that an earlier job sent
		return keyOf("event", e.ReplayOf, target)
	case e.Action == schemas.Published || e.Message == "":
		return keyOf("event", e.EventID, target)
	}
	return keyOf("instance", e.Message, target)
}

func (c *choice) anonymousFailure(e schemas.Event) bool {
	return e.Envelope.Properties.MessageID == "" && e.Action != schemas.Published
}

// note remembers what the whole selection holds before anything is sent.
func (c *choice) note(e schemas.Event) {
	if e.Envelope.Properties.MessageID == "" && e.Action == schemas.Published && c.target == ToOrigin {
		c.published[keyOf(e.Fingerprint)] = struct{}{}
	}
}

package wire

import (
	"cmp"
	"time"

	"github.com/watershipmq/watership/internal/wire/publishtime"
	"github.com/watershipmq/watership/schemas"
)

// sameClock is the largest difference between two clocks that is ignored: a message whose
// attempt seems to start up to 10 ms before its publish did not wait.
const sameClock = 10 * time.Millisecond

// setTimes sets the times of work of an event, as far as they are known: the process that
// tried the message has told when the attempt began, and Watership, the broker or the
// publisher when the message was sent.
func (dec Decoder) setTimes(e *schemas.Event) {
	if e.Started.IsZero() {
		return
	}
	published := dec.exactlyPublishedAt(e)
	e.QueueTime = timeBetween(cmp.Or(e.Sent, published), e.Started)
	if e.RecordedAction() == schemas.Handled {
		e.TotalTime = timeBetween(published, e.Started.Add(e.Duration))
	}
}

// exactlyPublishedAt returns when a message was published; the zero time if that is not
// known, or known to the second only. A replay repeats the times of the message that was
// published first.
func (dec Decoder) exactlyPublishedAt(e *schemas.Event) time.Time {
	if e.Replay != "" {
		return time.Time{}
	}
	at, source := dec.publishedAt(e.Envelope, false, e.Started)
	if source == TimeOfIngest || source == timeOfPublisher && at.Nanosecond() == 0 {
		return time.Time{}
	}
	return at
}

// timeBetween returns the time from one moment to another, at least a nanosecond; zero if
// it is not known, or a clock is ahead.
func timeBetween(from, to time.Time) time.Duration {
	took := to.Sub(from)
	if from.IsZero() || took < -sameClock || took > publishtime.LongestLag {
		return 0
	}
	return max(took, 1)
}

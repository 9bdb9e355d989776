package schemas

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// MaxSequence is the highest event.sequence that stores and indexers take for one: the
// year 2255. Beyond it JSON's numbers are not exact for everybody who reads them.
const MaxSequence = 1 << 53

// Check says what is wrong with an event that comes from outside, such as a file, for
// a machine where it is now. Nothing that Watership wrote is refused, unless another
// clock was a day ahead.
func (e Event) Check(now time.Time) error {
	if err := e.checkFields(); err != nil {
		return err
	}
	switch latest := now.Add(24 * time.Hour); {
	case e.Sequence < 0:
		return fmt.Errorf("event %q: event.sequence is negative", e.EventID)
	case e.Sequence > latest.UnixMicro():
		return fmt.Errorf("event %q: event.sequence is a time in microseconds, and %d is more than a day ahead of this machine's clock", e.EventID, e.Sequence)
	}
	return nil
}

// checkFields wants what every reader of events relies on.
func (e Event) checkFields() error {
	switch {
	case checkID(e.EventID) != nil:
		return checkID(e.EventID)
	case e.Action == "":
		return errors.New("the event has no action")
	case e.Time.IsZero():
		return errors.New("the event has no time")
	}
	return checkFingerprint(e.Fingerprint)
}

// longestID is what Elasticsearch takes as an _id
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/mapping-id-field.html).
const longestID = 512 // bytes

func checkID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("the event has no id (%s)", headerEventID)
	case len(id) > longestID || !utf8.ValidString(id):
		return fmt.Errorf("the event's id (%s) is none: expected UTF-8 of at most %d bytes", headerEventID, longestID)
	}
	return nil
}

// longestFingerprint leaves room for other kinds than v1 and SHA-256.
const longestFingerprint = 256 // bytes

func checkFingerprint(fingerprint string) error {
	switch {
	case fingerprint == "":
		return fmt.Errorf("the event has no fingerprint (%s)", headerFingerprint)
	case len(fingerprint) > longestFingerprint || !utf8.ValidString(fingerprint):
		return fmt.Errorf("the event's fingerprint (%s) is none: expected UTF-8 of at most %d bytes", headerFingerprint, longestFingerprint)
	}
	return nil
}

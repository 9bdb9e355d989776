package schemas

import (
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Check returns an error for an invalid event from an outside source, such as a
// file. now is the time of the local clock. It accepts every event that Watership
// wrote, unless the clock of its host was a day ahead.
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

// checkFields checks the fields that all readers of events rely on.
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

// longestEventID is the longest _id that Elasticsearch accepts
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/mapping-id-field.html).
const longestEventID = 512 // bytes

func checkID(id string) error {
	switch {
	case id == "":
		return errors.New("the event has no id (watership-event-id)")
	case len(id) > longestEventID || !utf8.ValidString(id):
		return fmt.Errorf("the event's id (watership-event-id) is none: expected UTF-8 of at most %d bytes", longestEventID)
	}
	return nil
}

// longestFingerprint leaves room for other versions than v1 and other hashes than
// SHA-256.
const longestFingerprint = 256 // bytes

func checkFingerprint(fingerprint string) error {
	switch {
	case fingerprint == "":
		return errors.New("the event has no fingerprint (watership-fingerprint)")
	case len(fingerprint) > longestFingerprint || !utf8.ValidString(fingerprint):
		return fmt.Errorf("the event's fingerprint (watership-fingerprint) is none: expected UTF-8 of at most %d bytes", longestFingerprint)
	}
	return nil
}

package history

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// streamEvents makes events of a stream, one after the other.
type streamEvents struct {
	begin time.Time
	list  []schemas.Event
}

func newStreamEvents(age time.Duration) *streamEvents {
	return &streamEvents{begin: time.Now().Add(-age).Truncate(time.Second)}
}

// add adds an event of the message with a name; a version below 0 is none.
func (s *streamEvents) add(action schemas.Action, message string, version int64, change ...func(*schemas.Event)) string {
	n := len(s.list) + 1
	e := schemas.Event{Sequence: int64(n), Action: action, TimeSource: wire.TimeOfEvent}
	e.EventID, e.Time, e.Fingerprint = fmt.Sprint("e", n), s.begin.Add(time.Duration(n)*time.Second), "v1:"+message
	e.Stream = schemas.MessageStream{ID: "order-7"}
	if version >= 0 {
		e.Stream.Version, e.Stream.HasVersion = version, true
	}
	e.Envelope = schemas.Envelope{Exchange: "shop", RoutingKey: "order." + message, Properties: schemas.Properties{MessageID: message}}
	if action != schemas.Published {
		e.Queue, e.Attempt, e.Message = "orders", 1, "i-"+message
	}
	for _, f := range change {
		f(&e)
	}
	s.list = append(s.list, e)
	return e.EventID
}

func repeats(job, event string) func(*schemas.Event) {
	return func(e *schemas.Event) { e.Replay, e.ReplayOf = job, event }
}

// find reads a stream in pages, and prints its messages with what became of them.
func (s *streamEvents) find(t *testing.T, limit int, kept time.Duration) (Stream, string) {
	t.Helper()
	store := filledStore(t, s.list)
	var first Stream
	var printed []string
	page := StreamPage{ID: "order-7", Limit: limit, Kept: kept}
	for pages := 0; ; pages++ {
		found, next, err := FindStream(t.Context(), store, page, nil)
		if err != nil || pages > len(s.list) {
			t.Fatalf("page %d: %v", pages+1, err)
		}
		if pages == 0 {
			first = found
		}
		for _, m := range found.Messages {
			version, state := "-", "published"
			if m.Version != nil {
				version = fmt.Sprint(*m.Version)
			}
			if len(m.Queues) > 0 {
				state = string(m.Queues[0].State)
			}
			printed = append(printed, fmt.Sprintf("%s %s %s", version, m.MessageID, state))
		}
		if next == (StreamCursor{}) {
			return first, strings.Join(printed, ", ")
		}
		page.Cursor = next
	}
}

// Each message is there once, in the order of versions, with what became of it, in one page
// and in many.
func TestStream(t *testing.T) {
	s := newStreamEvents(time.Hour)
	s.add(schemas.Published, "created", 0)
	s.add(schemas.Published, "paid", 1)
	s.add(schemas.Handled, "created", 0)
	failed := s.add(schemas.Poisoned, "paid", 1)
	s.add(schemas.Published, "sent", 3)
	s.add(schemas.Published, "packed", 2)
	s.add(schemas.RetryScheduled, "packed", 2)
	s.add(schemas.Replayed, "paid", 1, repeats("job", failed))
	s.add(schemas.Published, "paid", 1, repeats("job", failed))
	s.add(schemas.Handled, "paid", 1, repeats("job", failed))
	s.add(schemas.Published, "note", -1)
	s.add(schemas.Published, "elsewhere", 9, func(e *schemas.Event) { e.Stream.ID = "order-8" })
	for _, limit := range []int{1, 2, 100} {
		found, printed := s.find(t, limit, 0)
		if want := "0 created handled, 1 paid handled, 2 packed waiting, 3 sent published, - note published"; printed != want {
			t.Errorf("pages of %d: got %s, want %s", limit, printed, want)
		}
		if found.Order != "version" || found.Total != 5 || found.Without != 1 || found.Reversed != 1 || len(found.Gaps)+len(found.Doubles) > 0 || found.More {
			t.Errorf("pages of %d: %+v", limit, found)
		}
	}
}

// Without versions the order is that of the record, and nothing can be missing.
func TestStreamWithoutVersions(t *testing.T) {
	s := newStreamEvents(time.Hour)
	for _, name := range []string{"b", "a", "c"} {
		s.add(schemas.Published, name, -1)
	}
	found, printed := s.find(t, 2, 0)
	if printed != "- b published, - a published, - c published" || found.Order != "sequence" || found.Without != 0 || found.Total != 3 {
		t.Errorf("%s in %+v", printed, found)
	}
}

// Versions that no message has, and those that several have, are found over all pages.
func TestStreamWithGapsAndDoubles(t *testing.T) {
	s := newStreamEvents(time.Hour)
	for _, m := range []struct {
		name    string
		version int64
	}{{"a", 4}, {"b", 5}, {"c", 8}, {"d", 8}, {"e", 8}, {"f", 9}, {"g", 1 << 53}} {
		s.add(schemas.Published, m.name, m.version)
	}
	s.add(schemas.Handled, "f", 9) // another event of a message is no double
	found, _ := s.find(t, 2, 0)
	if want := []VersionGap{{6, 7}, {10, 1<<53 - 1}}; !slices.Equal(found.Gaps, want) {
		t.Errorf("gaps are %v, want %v", found.Gaps, want)
	}
	if len(found.Doubles) != 1 || found.Doubles[0].Version != 8 || strings.Join(found.Doubles[0].Fingerprints, " ") != "v1:c v1:d v1:e" {
		t.Errorf("doubles are %+v", found.Doubles)
	}
	if found.Total != 7 {
		t.Errorf("%d messages", found.Total)
	}
}

// After messages that are older than the store keeps published ones, the next may have been
// removed.
func TestStreamBeyondRetention(t *testing.T) {
	s := newStreamEvents(48 * time.Hour)
	s.add(schemas.Poisoned, "old", 3)
	s.add(schemas.Published, "new", 7, func(e *schemas.Event) { e.Time = time.Now() })
	s.add(schemas.Published, "newer", 9, func(e *schemas.Event) { e.Time = time.Now() })
	found, _ := s.find(t, 10, 24*time.Hour)
	if want := []VersionGap{{8, 8}}; !slices.Equal(found.Gaps, want) {
		t.Errorf("gaps are %v, want %v", found.Gaps, want)
	}
}

// A replay with changed headers is another message to the store. It is no double of the
// message that it repeats, but became of that.
func TestStreamWithChangedCopy(t *testing.T) {
	s := newStreamEvents(time.Hour)
	s.add(schemas.Published, "a", 0)
	failed := s.add(schemas.Poisoned, "a", 0)
	s.add(schemas.Replayed, "a", 0, repeats("job", failed))
	s.add(schemas.Published, "copy", 0, repeats("job", failed))
	s.add(schemas.Handled, "copy", 0, repeats("job", failed))
	s.add(schemas.Handled, "copy", 0, repeats("job", failed), func(e *schemas.Event) { e.Queue = "other" })
	found, printed := s.find(t, 10, 0)
	if printed != "0 a handled" || len(found.Doubles) > 0 || found.Total != 1 {
		t.Errorf("%s in %+v", printed, found)
	}
	if queues := found.Messages[0].Queues; len(queues) != 2 || queues[1].Queue != "other" || queues[1].State != QueueHandled {
		t.Errorf("it is at %+v", queues)
	}
	// Without the original, the copy is all that there is of the message.
	s.list = s.list[3:]
	if _, printed := s.find(t, 10, 0); printed != "0 copy handled" {
		t.Errorf("without the original: %s", printed)
	}
}

// A replay that changes the stream of a message is a message of the other stream.
func TestStreamWithCopyOfAnother(t *testing.T) {
	s := newStreamEvents(time.Hour)
	original := s.add(schemas.Published, "a", 0, func(e *schemas.Event) { e.Stream.ID = "order-8" })
	s.add(schemas.Published, "copy", 0, repeats("job", original))
	if _, printed := s.find(t, 10, 0); printed != "0 copy published" {
		t.Errorf("got %s", printed)
	}
}

// The place of a message is that of its published event, although the event of its handler,
// which comes by another queue, may be recorded before. Without one it is its first event.
func TestStreamRecordedAsPublished(t *testing.T) {
	s := newStreamEvents(time.Hour)
	s.add(schemas.Handled, "b", 1)
	s.add(schemas.Published, "a", 0)
	s.add(schemas.Published, "b", 1)
	failed := s.add(schemas.Poisoned, "c", 2)
	s.add(schemas.Published, "c", 2, repeats("job", failed))
	found, printed := s.find(t, 10, 0)
	if printed != "0 a published, 1 b handled, 2 c failed" || found.Reversed != 0 || found.Untapped != 1 || found.Messages[1].Sequence != 3 || found.Messages[2].Sequence != 4 {
		t.Errorf("%s in %+v", printed, found)
	}
}

func TestStreamThatIsNone(t *testing.T) {
	store := filledStore(t, nil)
	_, _, err := FindStream(t.Context(), store, StreamPage{ID: "order-7", Limit: 10}, nil)
	var none *NoStreamError
	if !errors.As(err, &none) || none.ID != "order-7" {
		t.Errorf("got %v", err)
	}
}

// A message with thousands of events leaves room for the others of its page.
func TestStreamWithAnOftenFailedMessage(t *testing.T) {
	s := newStreamEvents(time.Hour)
	s.add(schemas.Published, "a", 0)
	for range maxPageEvents {
		s.add(schemas.RetryScheduled, "b", 1)
	}
	s.add(schemas.Poisoned, "b", 1)
	s.add(schemas.Published, "c", 2)
	s.add(schemas.Handled, "c", 2)
	if _, printed := s.find(t, 10, 0); printed != "0 a published, 1 b failed, 2 c handled" {
		t.Errorf("got %s", printed)
	}
}

// A stream with more events than are read says so.
func TestStreamWithTooManyEvents(t *testing.T) {
	s := newStreamEvents(24 * time.Hour)
	const most = 20
	for n := range int64(most + 1) {
		s.add(schemas.Published, fmt.Sprint("m", n), n)
	}
	store := filledStore(t, s.list)
	found, next, err := FindStream(t.Context(), store, StreamPage{ID: "order-7", Limit: 1, MaxEvents: most}, nil)
	if err != nil || !found.More || found.Total != most || next.UpTo != most {
		t.Errorf("total %d, more %t, cursor %+v, %v", found.Total, found.More, next, err)
	}
}

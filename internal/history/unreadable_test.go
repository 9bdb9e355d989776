package history

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/eventstore/storetest"
	"github.com/watershipmq/watership/schemas"
)

// damaged is a store in which a document that cannot be read comes before all others.
type damaged struct{ *sqlite.Store }

func (s damaged) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return storetest.AfterUnreadable(s.Store.Events(ctx, selection))
}

// followed counts what a Follow passes, and ends it.
type followed struct {
	events, unreadable int
	stop               context.CancelFunc
}

func (f *followed) Receive(schemas.Event) error { f.events++; return nil }
func (f *followed) Flush() error                { f.stop(); return nil }
func (f *followed) Unreadable(error)            { f.unreadable++ }
func (f *followed) Unavailable(error)           {}

// One document that cannot be read hides no others.
func TestADocumentThatCannotBeRead(t *testing.T) {
	e := schemas.Event{Action: schemas.Published, Sequence: 1}
	e.EventID, e.Time, e.Fingerprint = "event", time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC), "v1:a"
	e.Envelope.Properties.MessageID = "m-1"
	store := damaged{filledStore(t, []schemas.Event{e})}
	if found, err := Find(t.Context(), store, "m-1"); err != nil || len(found.List) != 1 || len(found.List[0].Events) != 1 {
		t.Errorf("its life: %+v (%v)", found, err)
	}
	if found, err := FindConversation(t.Context(), store, "m-1", "", nil); err != nil || len(found.Messages) != 1 {
		t.Errorf("its conversation: %+v (%v)", found, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	to := &followed{stop: stop}
	if err := Follow(ctx, store, eventstore.Selection{}, 5, to); err != nil || to.events != 1 || to.unreadable == 0 {
		t.Errorf("the newest: %+v (%v)", to, err)
	}
}

// partlyDamaged is a store in which the documents of the messages "damaged" cannot be read.
type partlyDamaged struct{ *sqlite.Store }

func (s partlyDamaged) Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		for e, err := range s.Store.Events(ctx, selection) {
			if err == nil && e.Envelope.Properties.MessageID == "damaged" {
				e, err = schemas.Event{}, errors.New("reading document: it has a newer version")
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// A list goes on after any number of documents that cannot be read, and counts each once.
func TestListEndsAfterManyUnreadable(t *testing.T) {
	s := newStreamEvents(time.Hour)
	damage := func(number int) {
		for range number {
			s.add(schemas.Published, "damaged", -1)
		}
	}
	damage(9)
	s.add(schemas.Published, "oldest", -1)
	damage(3)
	s.add(schemas.Published, "older", -1)
	damage(5 * eventsPerListed)
	s.add(schemas.Published, "old", -1)
	s.add(schemas.Published, "new", -1)
	damage(5 * eventsPerListed)
	unreadable := len(s.list) - 4
	store := partlyDamaged{filledStore(t, s.list)}
	for _, limit := range []int{1, 2, 5} {
		page, left, names := MessageListPage{Limit: limit, Cursor: MessageCursor{UpTo: int64(len(s.list))}}, unreadable, []string(nil)
		for {
			found, err := ListMessages(t.Context(), store, page, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range found.Messages {
				names = append(names, m.First.Envelope.Properties.MessageID)
			}
			if left -= found.Unreadable; found.Next == (MessageCursor{}) {
				break
			}
			if found.Next == page.Cursor {
				t.Fatalf("pages of %d: the page after %v is itself", limit, names)
			}
			page.Cursor = found.Next
		}
		if want := []string{"new", "old", "older", "oldest"}; !slices.Equal(names, want) || left != 0 {
			t.Errorf("pages of %d: got %q, want %q, and %d of %d unreadable documents are not counted", limit, names, want, left, unreadable)
		}
	}
}

// The documents of a page that cannot be read are counted once, also if they are read again.
func TestUnreadableAreCountedOnce(t *testing.T) {
	s := newStreamEvents(time.Hour)
	for n := range 40 {
		s.add(schemas.Published, "damaged", -1)
		if n%8 == 0 {
			s.add(schemas.Published, fmt.Sprint("m-", n), -1)
		}
	}
	store := partlyDamaged{filledStore(t, s.list)}
	found, err := ListMessages(t.Context(), store, MessageListPage{Limit: 5, Cursor: MessageCursor{UpTo: int64(len(s.list))}}, nil)
	if err != nil || len(found.Messages) != 5 || found.Unreadable != 40 {
		t.Errorf("%d messages and %d unreadable documents (%v)", len(found.Messages), found.Unreadable, err)
	}
}

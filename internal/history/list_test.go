package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/schemas"
)

// listAll reads all pages of a list, and prints its messages with their states.
func listAll(t *testing.T, store *sqlite.Store, query kql.Node, limit int) (printed []string) {
	t.Helper()
	page := MessageListPage{Query: query, Limit: limit}
	upTo, err := store.HighestSequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page.Cursor.UpTo = upTo
	for pages := 0; pages < 100; pages++ {
		found, err := ListMessages(t.Context(), store, page, nil)
		if err != nil {
			t.Fatalf("page %d: %v", pages+1, err)
		}
		for _, m := range found.Messages {
			printed = append(printed, fmt.Sprintf("%s %s", m.First.Envelope.Properties.MessageID, m.State))
		}
		if found.Next == (MessageCursor{}) {
			return printed
		}
		page.Cursor = found.Next
	}
	t.Fatal("the list does not end")
	return nil
}

func newest(list []string) []string {
	slices.Reverse(list)
	return list
}

// Each message is listed once, in pages of any size, with its state.
func TestListMessages(t *testing.T) {
	s := newStreamEvents(time.Hour)
	s.add(schemas.Published, "handled", -1)
	s.add(schemas.Published, "failed", -1)
	s.add(schemas.Published, "unreported", -1)
	s.add(schemas.Handled, "handled", -1)
	s.add(schemas.RetryScheduled, "failed", -1)
	s.add(schemas.Published, "waiting", -1)
	s.add(schemas.RetryScheduled, "waiting", -1)
	s.add(schemas.Published, "discarded", -1)
	s.add(schemas.Poisoned, "failed", -1, func(e *schemas.Event) { e.Attempt = 2 })
	poisoned := s.add(schemas.Poisoned, "discarded", -1)
	s.add(schemas.Discarded, "discarded", -1, func(e *schemas.Event) { e.ReplayOf = poisoned })
	s.add(schemas.Paused, "", -1, func(e *schemas.Event) { e.Fingerprint = "" })
	store := filledStore(t, s.list)
	want := []string{"discarded discarded", "failed failed", "waiting waiting", "handled handled", "unreported published"}
	for limit := range 7 {
		if got := listAll(t, store, nil, limit+1); !slices.Equal(got, want) {
			t.Errorf("pages of %d: %q, want %q", limit+1, got, want)
		}
	}
	published := kql.FieldIs("event.action", "published")
	if got, want := listAll(t, store, published, 2), newest([]string{"handled handled", "failed failed", "unreported published", "waiting waiting", "discarded discarded"}); !slices.Equal(got, want) {
		t.Errorf("by their published events: %q, want %q", got, want)
	}
}

// What is stored between two pages is not in the list, and hides no message of it.
func TestListWhileMessagesChange(t *testing.T) {
	s := newStreamEvents(time.Hour)
	for n := range 6 {
		s.add(schemas.Published, fmt.Sprint("m-", n), -1)
	}
	store := filledStore(t, s.list)
	highest, err := store.HighestSequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	page := MessageListPage{Limit: 3, Cursor: MessageCursor{UpTo: highest}}
	first, err := ListMessages(t.Context(), store, page, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := len(s.list)
	s.add(schemas.Handled, "m-1", -1)
	s.add(schemas.Published, "m-6", -1)
	var documents []schemas.Document
	for _, e := range s.list[before:] {
		documents = append(documents, schemas.DocumentFormat{}.Document(e))
	}
	if _, err := store.Create(t.Context(), documents); err != nil {
		t.Fatal(err)
	}
	page.Cursor = first.Next
	second, err := ListMessages(t.Context(), store, page, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range append(first.Messages, second.Messages...) {
		got = append(got, m.First.Envelope.Properties.MessageID)
	}
	if want := "m-5 m-4 m-3 m-2 m-1 m-0"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %s", got, want)
	}
}

// A page reads a bounded number of events, even if one message has most of them.
func TestListReadsBoundedNumbers(t *testing.T) {
	s := newStreamEvents(time.Hour)
	s.add(schemas.Published, "first", -1)
	for range 3 * eventsPerListed {
		s.add(schemas.Published, "often", -1)
	}
	store := filledStore(t, s.list)
	page := MessageListPage{Limit: 2, Cursor: MessageCursor{UpTo: int64(len(s.list))}}
	found, err := ListMessages(t.Context(), store, page, nil)
	if err != nil || len(found.Messages) != 1 || found.Next == (MessageCursor{}) {
		t.Fatalf("the first page has %d messages, and %+v follows: %v", len(found.Messages), found.Next, err)
	}
	if got := listAll(t, store, nil, 2); !slices.Equal(got, []string{"often published", "first published"}) {
		t.Errorf("got %q", got)
	}
	if found.Next.After == (eventstore.Cursor{}) {
		t.Error("the next page begins at the first event")
	}
}

package transfer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/schemas"
)

// recorded is event n of an export.
func recorded(n int) schemas.Event {
	e := schemas.Event{
		Action: schemas.Published, Sequence: int64(n), Source: "test", VHost: "/",
		Envelope: schemas.Envelope{Exchange: "shop", RoutingKey: "k", Body: fmt.Appendf(nil, `{"order":%d}`, n)},
	}
	e.EventID, e.Time = fmt.Sprint("test:", n), time.Date(2026, 5, 4, 3, 0, 0, n, time.UTC)
	e.Fingerprint, e.BodySize = e.Envelope.Fingerprint(), len(e.Envelope.Body)
	return e
}

// export returns the file of some events.
func export(events ...schemas.Event) *bytes.Buffer {
	var file bytes.Buffer
	for _, e := range events {
		file.Write(append(schemas.DocumentFormat{}.Append(nil, e), '\n'))
	}
	return &file
}

func sqliteStore(t *testing.T) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "store.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// importing returns an import into a store that counts the calls of Progress.
func importing(store Store, calls *[]int) *Import {
	return &Import{Store: store, Progress: func(n int) { *calls = append(*calls, n) }}
}

func (i *Import) want(t *testing.T, err error, created, existing, refused int) {
	t.Helper()
	if err != nil || i.Created != created || i.Existing != existing || i.Refused != refused {
		t.Errorf("created %d, existing %d, refused %d (%v), want %d, %d and %d", i.Created, i.Existing, i.Refused, err, created, existing, refused)
	}
}

func TestAnImportInstallsItsStore(t *testing.T) {
	store, calls := sqliteStore(t), []int{}
	i := importing(store, &calls)
	i.want(t, i.Run(t.Context(), export(recorded(1), recorded(2))), 2, 0, 0)
	if n, err := store.Count(t.Context(), eventstore.Selection{}); n != 2 || err != nil {
		t.Errorf("%d events are stored, %v", n, err)
	}
}

func TestAnImportCanBeRepeated(t *testing.T) {
	store, calls := sqliteStore(t), []int{}
	first, second := importing(store, &calls), importing(store, &calls)
	first.want(t, first.Run(t.Context(), export(recorded(1), recorded(2))), 2, 0, 0)
	second.want(t, second.Run(t.Context(), export(recorded(1), recorded(2), recorded(3))), 1, 2, 0)
}

func TestAnEmptyFileImportsNothing(t *testing.T) {
	var calls []int
	i := importing(sqliteStore(t), &calls)
	i.want(t, i.Run(t.Context(), strings.NewReader("")), 0, 0, 0)
}

func TestProgressIsToldByBatch(t *testing.T) {
	var calls []int
	events := make([]schemas.Event, importEvents+3)
	for n := range events {
		events[n] = recorded(n + 1)
	}
	i := importing(sqliteStore(t), &calls)
	i.want(t, i.Run(t.Context(), export(events...)), importEvents+3, 0, 0)
	if !slices.Equal(calls, []int{importEvents, importEvents + 3}) {
		t.Errorf("%v", calls)
	}
}

func TestARefusedDocumentKeepsNoOtherFromBeingImported(t *testing.T) {
	var calls []int
	long := recorded(2)
	long.EventID = strings.Repeat("x", 600) // bytes, more than an id may have
	i := importing(sqliteStore(t), &calls)
	i.want(t, i.Run(t.Context(), export(recorded(1), long, recorded(3))), 2, 0, 1)
	if len(i.Reasons) != 1 || i.Reasons[0].EventID != long.EventID || i.Reasons[0].Reason == "" {
		t.Errorf("%+v", i.Reasons)
	}
}

func TestAnEventFromTheEndOfTimeIsRefused(t *testing.T) {
	var calls []int
	late := recorded(1)
	late.Sequence = 1<<63 - 1
	i := importing(sqliteStore(t), &calls)
	i.want(t, i.Run(t.Context(), export(late)), 0, 0, 1)
	if len(i.Reasons) != 1 || !strings.Contains(i.Reasons[0].Reason, "a day ahead") {
		t.Errorf("%+v", i.Reasons)
	}
}

func TestALineThatIsNoDocumentEndsTheImport(t *testing.T) {
	var calls []int
	file := export(recorded(1))
	file.WriteString("{\"no\": \"document\"}\n")
	file.Write(export(recorded(2)).Bytes())
	i := importing(sqliteStore(t), &calls)
	if err := i.Run(t.Context(), file); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
		t.Errorf("%v", err)
	}
	i.want(t, nil, 1, 0, 0)
}

// scripted is a store that answers as a test says.
type scripted struct {
	create func(docs []schemas.Document) ([]eventstore.Result, error)
	stored map[string]bool
}

func (s *scripted) Check(context.Context) error   { return nil }
func (s *scripted) Install(context.Context) error { return errors.New("it was installed") }

func (s *scripted) Find(context.Context, []string) (map[string]eventstore.DocumentID, error) {
	return nil, nil
}

func (s *scripted) Create(_ context.Context, docs []schemas.Document) ([]eventstore.Result, error) {
	if s.create != nil {
		if results, err := s.create(docs); results != nil || err != nil {
			return results, err
		}
	}
	results := make([]eventstore.Result, len(docs))
	for n, doc := range docs {
		if results[n].Status = eventstore.Created; s.stored[doc.ID] {
			results[n].Status = eventstore.Conflict
		}
	}
	return results, nil
}

func TestADocumentThatIsTooLargeIsFound(t *testing.T) {
	var calls []int
	store := &scripted{create: func(docs []schemas.Document) ([]eventstore.Result, error) {
		if slices.ContainsFunc(docs, func(d schemas.Document) bool { return d.ID == "test:2" }) {
			return nil, &eventstore.Error{Kind: eventstore.RequestTooLarge, Reason: "413"}
		}
		return nil, nil
	}}
	i := importing(store, &calls)
	i.want(t, i.Run(t.Context(), export(recorded(1), recorded(2), recorded(3), recorded(4))), 3, 0, 1)
	if len(i.Reasons) != 1 || i.Reasons[0].EventID != "test:2" || !strings.Contains(i.Reasons[0].Reason, "413") {
		t.Errorf("%+v", i.Reasons)
	}
}

func TestADocumentThatAnotherImportHasStoredExists(t *testing.T) {
	var calls []int
	i := importing(&scripted{stored: map[string]bool{"test:1": true}}, &calls)
	i.want(t, i.Run(t.Context(), export(recorded(1), recorded(2))), 1, 1, 0)
}

func TestDocumentsThatTheStoreIsTooBusyForAreSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []int
		var sent [][]string
		store := &scripted{create: func(docs []schemas.Document) ([]eventstore.Result, error) {
			var ids []string
			for _, d := range docs {
				ids = append(ids, d.ID)
			}
			switch sent = append(sent, ids); len(sent) {
			case 1:
				return nil, &eventstore.Error{Kind: eventstore.Overloaded}
			case 2:
				return []eventstore.Result{{Status: eventstore.Created}, {Status: eventstore.Busy}}, nil
			}
			return nil, nil
		}}
		i := importing(store, &calls)
		i.want(t, i.Run(t.Context(), export(recorded(1), recorded(2))), 2, 0, 0)
		if len(sent) != 3 || len(sent[1]) != 2 || !slices.Equal(sent[2], []string{"test:2"}) {
			t.Errorf("sent %q", sent)
		}
	})
}

func TestAStoreThatStaysBusyEndsTheImport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []int
		i := importing(&scripted{create: func(docs []schemas.Document) ([]eventstore.Result, error) {
			return slices.Repeat([]eventstore.Result{{Status: eventstore.Busy}}, len(docs)), nil
		}}, &calls)
		if err := i.Run(t.Context(), export(recorded(1), recorded(2))); err == nil || err.Error() != "the store would not take 2 events" {
			t.Errorf("%v", err)
		}
	})
}

func TestAStoreThatIsAwayEndsTheImport(t *testing.T) {
	var calls []int
	requests, away := 0, &eventstore.Error{Kind: eventstore.Unauthorized, Reason: "403"}
	i := importing(&scripted{create: func([]schemas.Document) ([]eventstore.Result, error) {
		requests++
		return nil, away
	}}, &calls)
	if err := i.Run(t.Context(), export(recorded(1))); !errors.Is(err, away) || requests != 1 {
		t.Errorf("%v after %d requests", err, requests)
	}
}

func TestReasonsAreThoseOfTheFirstDocuments(t *testing.T) {
	var calls []int
	events := make([]schemas.Event, maxReasons+5)
	for n := range events {
		events[n] = recorded(n + 1)
	}
	i := importing(&scripted{create: func(docs []schemas.Document) ([]eventstore.Result, error) {
		return slices.Repeat([]eventstore.Result{{Status: eventstore.Refused, Reason: "no"}}, len(docs)), nil
	}}, &calls)
	i.want(t, i.Run(t.Context(), export(events...)), 0, 0, maxReasons+5)
	if len(i.Reasons) != maxReasons || i.Reasons[0].EventID != "test:1" {
		t.Errorf("%d reasons, the first of %s", len(i.Reasons), i.Reasons[0].EventID)
	}
}

func TestAnExportEndsWithTheNewestEvent(t *testing.T) {
	store, calls := sqliteStore(t), []int{}
	i := importing(store, &calls)
	i.want(t, i.Run(t.Context(), export(recorded(1), recorded(7))), 2, 0, 0)
	got, err := ExportSelection(t.Context(), store, eventstore.Selection{Limit: 3})
	if err != nil || got.UpTo != 7 || got.Order != eventstore.BySequence || got.Limit != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}

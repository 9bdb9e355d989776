package sqlite

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// requests are all requests to a store, each with the words by which its errors name it.
func requests(ctx context.Context, s *Store) map[string]func() error {
	return map[string]func() error{
		"creating 2 documents": func() error {
			_, err := s.Create(ctx, eventDocuments("new-", 1, 2))
			return err
		},
		"reading events": func() error {
			for _, err := range s.Events(ctx, eventstore.Selection{}) {
				return err
			}
			return nil
		},
		"reading summaries": func() error {
			for _, err := range s.Summaries(ctx, eventstore.Selection{}) {
				return err
			}
			return nil
		},
		"counting events": func() error {
			_, err := s.Count(ctx, eventstore.Selection{})
			return err
		},
		"counting the values of watership.queue": func() error {
			_, err := s.TopValues(ctx, eventstore.Selection{}, "watership.queue", 3)
			return err
		},
		"counting events over @timestamp": func() error {
			_, err := s.Histogram(ctx, eventstore.Selection{}, "@timestamp", 3, time.UTC)
			return err
		},
		"finding documents by id": func() error {
			_, err := s.Find(ctx, []string{"a"})
			return err
		},
		"reading the sequences of documents": func() error {
			_, err := s.Sequences(ctx, []eventstore.DocumentID{{Index: "traffic", ID: "a"}})
			return err
		},
		"reading the highest sequence of shop": func() error {
			_, err := s.HighestSequenceOf(ctx, "shop")
			return err
		},
		"reading the highest sequence": func() error {
			_, err := s.HighestSequence(ctx)
			return err
		},
		"creating job j": func() error {
			_, err := s.CreateJob(ctx, "j", []byte("{}"))
			return err
		},
		"saving job j": func() error {
			_, err := s.SaveJob(ctx, "j", "1", []byte("{}"))
			return err
		},
		"reading job j": func() error {
			_, _, err := s.Job(ctx, "j")
			return err
		},
		"reading job k": func() error {
			_, err := s.KnownJobs(ctx, []string{"k"})
			return err
		},
		"reading jobs": func() error {
			for _, err := range s.Jobs(ctx) {
				return err
			}
			return nil
		},
		"reading handover h": func() error {
			_, err := s.Handover(ctx, "h")
			return err
		},
		"saving handover h": func() error { return s.SaveHandover(ctx, "h", []byte("{}")) },
		"removing old events": func() error {
			_, err := s.Retain(ctx)
			return err
		},
	}
}

var hourOfTraffic = map[schemas.Stream]time.Duration{schemas.Traffic: time.Hour}

// Every request to a store without its tables, or without its file, says which request
// failed and on which file, and how to make one.
func TestErrorsWithoutAStore(t *testing.T) {
	withoutTables := installed(t, Config{Retention: hourOfTraffic})
	for _, table := range []string{"event", "document", "record", "tally"} {
		execSQL(t, withoutTables.path, "DROP TABLE "+table)
	}
	removed := installed(t, Config{Retention: hourOfTraffic})
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(removed.path + end); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	for _, s := range []*Store{withoutTables, removed} {
		failed := 0
		for operation, request := range requests(t.Context(), s) {
			err := request()
			if err == nil { // a connection has the removed file open
				continue
			}
			failed++
			wantLine(t, err, operation, s.path, "run `watership setup`")
			wantKind(t, err, eventstore.Unauthorized)
		}
		if failed == 0 {
			t.Errorf("%s: no request failed", s.path)
		}
	}
	for operation, request := range requests(t.Context(), withoutTables) {
		if request() == nil {
			t.Errorf("%s: no error without tables", operation)
		}
	}
}

// A request whose context is done fails as one that can be repeated, changes nothing, and
// its error is still the context's.
func TestErrorsOfDoneContexts(t *testing.T) {
	s := installed(t, Config{Retention: hourOfTraffic})
	create(t, s, eventDocuments("", 1, 3)...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for operation, request := range requests(ctx, s) {
		err := request()
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v is not the context's", operation, err)
			continue
		}
		wantLine(t, err, operation, s.path)
		wantKind(t, err, eventstore.Unavailable)
	}
	if n, err := s.Count(t.Context(), eventstore.Selection{}); n != 3 || err != nil {
		t.Errorf("there are %d events, %v", n, err)
	}
	wantConsistent(t, s)
}

// A closed store refuses every request on one line.
func TestErrorsOfAClosedStore(t *testing.T) {
	s := installed(t, Config{Retention: hourOfTraffic})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for operation, request := range requests(t.Context(), s) {
		err := request()
		wantLine(t, err, operation, s.path, "closed")
		wantKind(t, err, eventstore.Unavailable)
	}
}

// A file that may not be written can be read, and each write says so.
func TestReadOnlyFile(t *testing.T) {
	s := installed(t, Config{Retention: hourOfTraffic})
	create(t, s, eventDocuments("", 1, 3)...)
	if _, err := s.writer.ExecContext(t.Context(), "PRAGMA query_only = ON"); err != nil {
		t.Fatal(err)
	}
	for operation, request := range requests(t.Context(), s) {
		err := request()
		isWrite := strings.HasPrefix(operation, "creating") || strings.HasPrefix(operation, "saving") || strings.HasPrefix(operation, "removing")
		if !isWrite {
			if err != nil {
				t.Errorf("%s: %v", operation, err)
			}
			continue
		}
		wantLine(t, err, operation, "readonly")
		wantKind(t, err, eventstore.Unauthorized)
	}
	if n, err := s.Count(t.Context(), eventstore.Selection{}); n != 3 || err != nil {
		t.Errorf("there are %d events, %v", n, err)
	}
}

// A value that SQLite cannot hold is an error of the request and not of the file.
func TestTooLargeValue(t *testing.T) {
	s := installed(t, Config{})
	var length int64
	err := s.readers.QueryRowContext(t.Context(), "SELECT length(zeroblob(3000000000))").Scan(&length)
	wantKind(t, s.storeError("testing", err), eventstore.RequestTooLarge)
	wantLine(t, s.storeError("testing", err), "testing in the SQLite store "+s.path, "too big")
}

// An error that has a kind already keeps it, and an error of many lines gets one.
func TestErrorsAreWrappedOnce(t *testing.T) {
	s := installed(t, Config{})
	if err := s.storeError("testing", nil); err != nil {
		t.Error(err)
	}
	first := s.storeError("first", errors.New("two\n\tlines"))
	wantLine(t, first, "first", "two lines")
	if again := s.storeError("again", first); again != first {
		t.Errorf("%v became %v", first, again)
	}
}

// Fields that have no values to count are refused with their type.
func TestFieldsThatCannotBeCounted(t *testing.T) {
	s := installed(t, Config{})
	for _, field := range []string{"@timestamp", "event.ingested", "error.message", "body.text"} {
		_, err := s.TopValues(t.Context(), eventstore.Selection{}, field, 3)
		kind := "text"
		if !strings.Contains(field, "error") && !strings.Contains(field, "body") {
			kind = "date"
		}
		wantLine(t, err, "counting the values of "+field+": fields of type "+kind+" cannot be counted by")
		wantKind(t, err, eventstore.BadRequest)
	}
	for _, field := range []string{"watership.queue", "error.message", "nobody"} {
		_, err := s.Histogram(t.Context(), eventstore.Selection{}, field, 3, time.UTC)
		wantLine(t, err, "counting events over "+field+": fields of type")
		wantKind(t, err, eventstore.BadRequest)
	}
}

// TestPercentilesOfAFailedRead: an error comes without values, since it has no percentiles for them.
func TestPercentilesOfAFailedRead(t *testing.T) {
	s := installed(t, Config{})
	e := event("", 1)
	e.Action, e.Queue = schemas.Handled, "orders"
	create(t, s, schemas.DocumentFormat{}.Document(e))
	execSQL(t, s.path, `ALTER TABLE event DROP COLUMN "watership.total_time"`)
	found, err := s.Percentiles(t.Context(), eventstore.Selection{}, "watership.queue", 10, "watership.total_time")
	if err == nil || len(found.Values) > 0 {
		t.Errorf("got %v, %v; want an error alone", found, err)
	}
}

package sqlite

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// TestFullDisk: documents that do not fit on the disk are not written, not even in part,
// and can be written later.
func TestFullDisk(t *testing.T) {
	s := installed(t, Config{})
	limit := func(pages string) {
		if _, err := s.writer.ExecContext(t.Context(), "PRAGMA max_page_count = "+pages); err != nil {
			t.Fatal(err)
		}
	}
	create(t, s, eventDocuments("", 1, 3)...)
	limit(column(t, s, "SELECT page_count + 5 FROM pragma_page_count")[0])
	docs := eventDocuments("", 4, 500)
	_, err := s.Create(t.Context(), docs)
	wantLine(t, err, "creating 497 documents", "full")
	wantKind(t, err, eventstore.Unauthorized)
	wantConsistent(t, s)
	if n, err := s.Count(t.Context(), eventstore.Selection{}); n != 3 || err != nil {
		t.Errorf("counted %d, %v; want the 3 that fit", n, err)
	}
	limit("1000000")
	create(t, s, docs...)
	wantConsistent(t, s)
}

// TestCorruptFile: reading a corrupt file ends with an error on one line.
func TestCorruptFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := installed(t, Config{Path: path})
	create(t, s, eventDocuments("", 1, 500)...)
	execSQL(t, path, "PRAGMA wal_checkpoint(TRUNCATE)")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	schemaEnd := len(content) / 2 // so that SQLite can still open the file
	corrupt := append(bytes.Clone(content[:schemaEnd]), bytes.Repeat([]byte{0xa5}, len(content)-schemaEnd)...)
	path = filepath.Join(t.TempDir(), "corrupt.db")
	if err := os.WriteFile(path, corrupt, 0o600); err != nil {
		t.Fatal(err)
	}
	s = open(t, Config{Path: path})
	for _, err := range s.Events(t.Context(), eventstore.Selection{}) {
		if err != nil {
			wantLine(t, err, "reading events", path, "malformed")
			wantKind(t, err, eventstore.Unauthorized)
			return
		}
	}
	t.Error("a corrupt file was read to the end")
}

func wantKind(t *testing.T, err error, want eventstore.ErrorKind) {
	t.Helper()
	var failed *eventstore.Error
	if !errors.As(err, &failed) || failed.Kind != want {
		t.Errorf("got %v, want a store error of kind %d", err, want)
	}
}

// TestClock: the clock of the store is this machine's, once the store is installed.
func TestClock(t *testing.T) {
	s := open(t, Config{})
	_, err := s.Clock(t.Context())
	wantLine(t, err, "run `watership setup`")
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := time.Now()
	got, err := s.Clock(t.Context())
	if after := time.Now(); err != nil || got.Before(before) || got.After(after) {
		t.Errorf("got %s, %v; want a time from %s to %s", got, err, before, after)
	}
}

// TestRetainDuringAReading: events that Retain removes during a reading are left out, and
// the reading goes on.
func TestRetainDuringAReading(t *testing.T) {
	read := map[string]func(s *Store, sel eventstore.Selection, each func(sequence int64, err error)){
		"events": func(s *Store, sel eventstore.Selection, each func(int64, error)) {
			for e, err := range s.Events(t.Context(), sel) {
				each(e.Sequence, err)
			}
		},
		"summaries": func(s *Store, sel eventstore.Selection, each func(int64, error)) {
			for e, err := range s.Summaries(t.Context(), sel) {
				each(e.Sequence, err)
			}
		},
	}
	for name, read := range read {
		t.Run(name, func(t *testing.T) {
			s := installed(t, Config{Retention: map[schemas.Stream]time.Duration{schemas.Traffic: time.Hour}})
			create(t, s, eventDocuments("old-", 1, 3)...)
			recent := event("recent", 4)
			recent.Sequence = time.Now().UnixMicro()
			create(t, s, schemas.DocumentFormat{}.Document(recent))
			var got []int64
			read(s, eventstore.Selection{Order: eventstore.BySequence}, func(sequence int64, err error) {
				if err != nil {
					t.Fatal(err)
				}
				if got = append(got, sequence); len(got) > 1 {
					return
				}
				if removed, err := s.Retain(t.Context()); removed != 3 || err != nil {
					t.Fatalf("removed %d, %v; want 3", removed, err)
				}
			})
			if len(got) != 2 || got[0] != 1 || got[1] != recent.Sequence {
				t.Errorf("read %d, want 1 and %d", got, recent.Sequence)
			}
		})
	}
}

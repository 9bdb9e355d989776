package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// TestTwoProcesses: one process reads the events of the other, and writes its own.
func TestTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s := installed(t, Config{Path: path})
	command, lines := startWriter(t, path)
	for n := 1; n <= 20 && lines.Scan(); n++ {
		id := lines.Text()
		if found, err := s.Find(t.Context(), []string{id}); err != nil || found[id].ID == "" {
			t.Fatalf("%s, which the other acknowledged: %v, %v", id, found, err)
		}
		create(t, s, eventDocuments("ours-", n, n)...)
	}
	if n, err := s.Count(t.Context(), eventstore.Selection{}); err != nil || n < 40 {
		t.Errorf("counted %d, %v", n, err)
	}
	if err := command.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // killed
	wantConsistent(t, s)
}

// TestWriteTimeout: a write that waits too long for another process returns StoreBusy, and
// can be repeated.
func TestWriteTimeout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	holder := installed(t, Config{Path: path})
	s := open(t, Config{Path: path, Timeout: time.Millisecond})
	tx, err := holder.writer.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Create(t.Context(), eventDocuments("", 1, 1))
	var failed *eventstore.Error
	if !errors.As(err, &failed) || failed.Kind != eventstore.Overloaded {
		t.Errorf("got %v, want a busy store", err)
	}
	if n, err := s.Count(t.Context(), eventstore.Selection{}); n != 0 || err != nil {
		t.Errorf("reading while another process writes: %d, %v", n, err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	create(t, s, eventDocuments("", 1, 1)...)
}

func TestInstallAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	var work sync.WaitGroup
	for range 4 {
		s := open(t, Config{Path: path})
		work.Go(func() {
			if err := s.Install(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	work.Wait()
}

// TestInstallWaitsForAnotherProcess: SQLite itself does not wait as it turns on the
// write-ahead log.
func TestInstallWaitsForAnotherProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tx, err := open(t, Config{Path: path}).writer.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var failed *eventstore.Error
	err = open(t, Config{Path: path, Timeout: time.Millisecond}).Install(t.Context())
	if !errors.As(err, &failed) || failed.Kind != eventstore.Overloaded {
		t.Errorf("got %v after the timeout, want a busy store", err)
	}
	s := open(t, Config{Path: path})
	installed := make(chan error, 1)
	go func() { installed <- s.Install(t.Context()) }()
	select {
	case err := <-installed:
		t.Fatalf("Install did not wait: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-installed; err != nil {
		t.Error(err)
	}
	create(t, s, eventDocuments("", 1, 1)...)
}

package sqlite

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// A relative path is that of the directory in which the store was opened.
func TestRelativePath(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	t.Chdir(dir)
	s := open(t, Config{Path: "events.db"})
	t.Chdir(elsewhere)
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	create(t, s, eventDocuments("", 1, 2)...)
	if _, err := os.Stat(filepath.Join(dir, "events.db")); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) > 0 {
		t.Errorf("the other directory has %v, %v", entries, err)
	}
}

// A Config without optional values has the documented ones.
func TestDefaults(t *testing.T) {
	cfg, err := Config{Path: "events.db"}.withDefaults()
	if err != nil || cfg.Timeout != DefaultTimeout || cfg.Logger == nil || !filepath.IsAbs(cfg.Path) {
		t.Errorf("got %+v, %v", cfg, err)
	}
	cfg, err = Config{Path: "/a/../events.db", Timeout: time.Minute}.withDefaults()
	if err != nil || cfg.Timeout != time.Minute || cfg.Path != "/events.db" {
		t.Errorf("got %+v, %v", cfg, err)
	}
}

// A stream without a retention, or with none, keeps its events for ever.
func TestNoRetention(t *testing.T) {
	for _, retention := range []map[schemas.Stream]time.Duration{nil, {schemas.Traffic: 0}, {schemas.Failures: time.Nanosecond}} {
		s := installed(t, Config{Retention: retention})
		create(t, s, eventDocuments("", 1, 3)...)
		if removed, err := s.Retain(t.Context()); removed != 0 || err != nil {
			t.Errorf("%v: removed %d, %v", retention, removed, err)
		}
		if n, err := s.Count(t.Context(), eventstore.Selection{}); n != 3 || err != nil {
			t.Errorf("%v: %d events are left, %v", retention, n, err)
		}
	}
}

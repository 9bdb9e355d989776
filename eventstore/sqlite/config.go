// Package sqlite stores Watership's events in one SQLite file: the embedded
// store, for evaluation, development and tests. It gives the same answers as
// Elasticsearch to the same queries; schema.sql says how.
//
//	store, err := sqlite.Open(ctx, sqlite.Config{Path: "events.db"})
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	if err := store.Install(ctx); err != nil { // creates the file
//		return err
//	}
//
// Do not use it for more than a few million events or for several machines: use package
// elastic.
//
// Several processes can share a file: one writes at a time, the others wait for
// it, and readers never wait. The file must be on a local disk. A request that
// fails as a whole returns a *eventstore.Error.
package sqlite

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// DefaultTimeout is the Timeout of a Config without one.
const DefaultTimeout = 10 * time.Second

// Config has the path of the file and the retention of its events.
type Config struct {
	// Path of the file. SQLite also creates PATH-wal and PATH-shm.
	Path string

	// Subjects is the path of the file with the keys of subjects, which KeepSubjectKeys creates. A copy of the
	// folder of the events does not have the keys if they are in another one. "": PATH.subjects.
	Subjects string

	// Retention is the maximum age of events by stream, to the millisecond. The
	// age comes from event.sequence, the time of ingest. See Retain. A stream
	// without a retention, or with 0, keeps its events for ever. A stream with a period of its
	// own needs no retention.
	Retention map[schemas.Stream]time.Duration

	// Keep are the rules by which the documents' streams were chosen, if a process records events. The
	// store notes them for readers, see eventstore.KeepRules.Note. The names of streams have their periods.
	Keep eventstore.KeepRules

	// Labels are the full names of labels in documents, such as labels.tenant. A
	// query with a pattern of names, such as labels.*, searches these.
	Labels []string

	// Timeout limits how long a write waits for the write of another process.
	// 0: DefaultTimeout.
	Timeout time.Duration

	// Logger logs warnings about single documents and upgrades; nil: slog.Default.
	Logger *slog.Logger
}

func (c Config) check() error {
	switch {
	case c.Path == "":
		return errors.New("the SQLite store needs the path of a file, such as watership.db")
	case strings.ContainsRune(c.Path, 0):
		return fmt.Errorf("path %q of the SQLite store has a NUL in it", c.Path)
	case strings.ContainsRune(c.Subjects, 0):
		return fmt.Errorf("path %q of the keys of subjects has a NUL in it", c.Subjects)
	case c.Timeout < 0:
		return fmt.Errorf("timeout %s of the SQLite store is negative", c.Timeout)
	}
	for stream, retention := range c.Retention {
		if !stream.IsValid() {
			return fmt.Errorf("retention of stream %q: the streams are %s and %s, and those of periods have these in their names", stream, schemas.Traffic, schemas.Failures)
		}
		if retention < 0 {
			return fmt.Errorf("retention %s of stream %s is negative", retention, stream)
		}
	}
	return nil
}

// withDefaults also makes the paths absolute, so that they outlive a change of directory.
func (c Config) withDefaults() (Config, error) {
	c.Subjects = cmp.Or(c.Subjects, c.Path+subjectsSuffix)
	for _, path := range []*string{&c.Path, &c.Subjects} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return c, fmt.Errorf("resolving the path %s of the SQLite store: %w", *path, err)
		}
		*path = absolute
	}
	if c.Subjects == c.Path {
		return c, fmt.Errorf("the events and the keys of subjects need a file each, and both are %s", c.Path)
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

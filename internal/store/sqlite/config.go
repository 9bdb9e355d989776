// Package sqlite keeps Watership's events in one SQLite file: the embedded
// store, for trying out, for development and for tests. It gives the same
// answers as Elasticsearch to the same questions; schema.sql says how.
//
// Several processes can share a file: one writes at a time, the others wait for
// it, and nobody waits to read. The file must be on a local disk. What goes
// wrong with a request as a whole is a *schemas.StoreError.
package sqlite

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// DefaultTimeout is how long a write waits for another process where Config
// says nothing.
const DefaultTimeout = 10 * time.Second

// Config says where the file is and how long events are kept in it.
type Config struct {
	// Path of the file. Beside it SQLite keeps PATH-wal and PATH-shm.
	Path string

	// Retention says how long events are kept, by their sequence, which is the
	// time at which they were taken; to the millisecond. See Retain. A stream
	// that is not in it, or has 0, keeps them for ever.
	Retention map[schemas.Stream]time.Duration

	// Labels are the full names of labels that documents have, such as
	// labels.tenant: what a query with a pattern of names, labels.*, asks.
	Labels []string

	// Timeout is how long a write waits for another process to finish its own.
	// 0: DefaultTimeout.
	Timeout time.Duration

	// Logger hears of what is odd but harmless; nil: nobody does.
	Logger *slog.Logger
}

func (c Config) check() error {
	switch {
	case c.Path == "":
		return errors.New("the SQLite store needs the path of a file, such as watership.db")
	case strings.ContainsRune(c.Path, 0):
		return fmt.Errorf("path %q of the SQLite store has a NUL in it", c.Path)
	case c.Timeout < 0:
		return fmt.Errorf("timeout %s of the SQLite store is less than nothing", c.Timeout)
	}
	for stream, retention := range c.Retention {
		if stream != schemas.Traffic && stream != schemas.Failures {
			return fmt.Errorf("retention of stream %q: the streams are %s and %s", stream, schemas.Traffic, schemas.Failures)
		}
		if retention < 0 {
			return fmt.Errorf("retention %s of stream %s is less than nothing", retention, stream)
		}
	}
	return nil
}

// withDefaults also makes the path independent of where the process goes.
func (c Config) withDefaults() (Config, error) {
	path, err := filepath.Abs(c.Path)
	if err != nil {
		return c, fmt.Errorf("finding the SQLite store %s: %w", c.Path, err)
	}
	c.Path = path
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

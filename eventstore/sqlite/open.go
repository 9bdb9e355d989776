package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"modernc.org/sqlite"

	"github.com/watershipmq/watership/eventstore/sqlite/internal/functions"
)

// Store is the SQLite store. Its methods are safe for concurrent use.
type Store struct {
	*file
	reader
	*creator
	records
	jobs
	subjects
	installer
	retention
}

// Product returns the name of the store in messages.
func (*Store) Product() string { return "SQLite" }

// file is the SQLite file of a store, and the columns of its tables.
type file struct {
	path    string
	timeout time.Duration // for locks of other processes
	logger  *slog.Logger
	layout  layout

	// writer has one connection, since SQLite allows one writer at a time. The
	// connections of readers do not wait for it.
	writer, readers *sql.DB

	writing, reading *statements // of each
}

const maxReaders = 4

// Open checks a configuration and opens the file if there is one. Install creates
// the file. A path that SQLite cannot read, such as a directory, is an error.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := checkSubjects(cfg); err != nil {
		return nil, err
	}
	layout, err := newLayout(cfg.Labels)
	if err != nil {
		return nil, err
	}
	driver, err := functions.NewDriver()
	if err != nil {
		return nil, err
	}
	f := &file{
		path: cfg.Path, timeout: cfg.Timeout, logger: cfg.Logger, layout: layout,
		writer:  sql.OpenDB(connector{driver, dsn(cfg, "_txlock=immediate")}),
		readers: sql.OpenDB(connector{driver, dsn(cfg, "_query_only=1")}),
	}
	f.writer.SetMaxOpenConns(1)
	f.readers.SetMaxOpenConns(maxReaders)
	f.readers.SetMaxIdleConns(maxReaders)
	f.writing, f.reading = newStatements(f.writer), newStatements(f.readers)
	if err := f.checkFile(ctx); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	c, kept := &creator{file: f}, records{f}
	return &Store{
		f, reader{f, newDecompressors()}, c, kept, jobs{kept}, newSubjects(driver, cfg, kept), installer{c, cfg.Keep}, retention{kept, cfg.Retention, cfg.Keep},
	}, nil
}

// checkFile checks that SQLite can read the file, if there is one.
func (f *file) checkFile(ctx context.Context) error {
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("opening the SQLite store: %w", err)
	case info.IsDir():
		return fmt.Errorf("the SQLite store %s is a directory: give the path of a file in it", f.path)
	}
	_, err = f.fileVersion(ctx)
	return err
}

// Close waits for running requests, and closes the files.
func (s *Store) Close() error { return errors.Join(s.keys.Close(), s.file.Close()) }

// Close closes the file of the events.
func (f *file) Close() error { return errors.Join(f.writer.Close(), f.readers.Close()) }

// dsn does not allow SQLite to create a file, so that a wrong path is an error and
// not an empty store. A commit is on the disk when it returns (synchronous=FULL).
func dsn(cfg Config, more string) string {
	pragmas := fmt.Sprintf("mode=rw&_busy_timeout=%d&_synchronous=FULL&_dqs=0&_error_rc=1&"+
		"_pragma=cache_size(-65536)&_pragma=temp_store(MEMORY)&", cfg.Timeout.Milliseconds())
	path := filepath.ToSlash(cfg.Path)
	if path[0] != '/' { // a drive of Windows
		path = "/" + path
	}
	file := url.URL{Scheme: "file", Path: path, RawQuery: pragmas + more}
	return file.String()
}

// connector opens connections with its own driver, since functions of the global
// driver would be visible to the whole program.
type connector struct {
	driver *sqlite.Driver
	dsn    string
}

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return c.driver.Open(c.dsn)
}

// Driver implements driver.Connector.
func (c connector) Driver() driver.Driver { return c.driver }

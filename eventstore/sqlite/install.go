package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/backoff"
)

//go:embed schema.sql
var tables string

// failureIndexes are what version 8 has in place of those that version 5 added to version 4.
//
//go:embed failures.sql
var failureIndexes string

// recordTable and streamColumns are what version 6 added to version 5.
var (
	//go:embed records.sql
	recordTable string

	//go:embed streams.sql
	streamColumns string
)

// timeColumns are what version 7 added to version 6.
//
//go:embed times.sql
var timeColumns string

// periodColumn is what version 9 added to version 8.
//
//go:embed periods.sql
var periodColumn string

// receiverColumn is what version 10 added to version 9.
//
//go:embed receivers.sql
var receiverColumn string

// countTables are what version 11 added to version 10.
//
//go:embed counts.sql
var countTables string

const (
	// schemaVersion is the version of all of them (PRAGMA user_version).
	schemaVersion = 11

	// applicationID marks Watership's files (PRAGMA application_id): "WTSH".
	applicationID = 0x57545348
)

// installer creates the file, and writes the events of an older one again.
type installer struct {
	*creator
	rules eventstore.KeepRules
}

// Install creates the file, or upgrades one of an older Watership. It is safe to run
// again or concurrently. It changes nothing and returns an error for a file of
// another program or of a newer version.
func (i *installer) Install(ctx context.Context) error {
	if err := createFile(i.path); err != nil {
		return fmt.Errorf("creating the SQLite store: %w", err)
	}
	if err := i.installFile(ctx); err != nil || len(i.rules) == 0 { // Retain notes that there are none any more
		return err
	}
	return i.rules.Note(ctx, &records{i.file})
}

func (i *installer) installFile(ctx context.Context) error {
	version, err := i.fileVersion(ctx)
	if err != nil || version == schemaVersion {
		return err
	}
	if err := i.enableVacuum(ctx, version); err != nil {
		return i.storeError("creating the file", err)
	}
	if err := i.enableWAL(ctx); err != nil {
		return i.storeError("creating the file", err)
	}
	if err := i.write(ctx, "creating the tables", func(tx *sql.Tx) error { return i.createSchema(ctx, tx) }); err != nil {
		return err
	}
	return i.vacuumUpgraded(ctx, version)
}

// createFile creates a file that only its owner may read, since messages can be confidential.
// It does not open an existing one: closing it would release the locks of every connection of
// this process (https://www.sqlite.org/howtocorrupt.html#_posix_advisory_locks_canceled_by_a_separate_thread_doing_close_),
// and another program could then delete the write-ahead log.
func createFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return file.Close()
}

// enableVacuum lets Retain shrink the file. SQLite ignores it once a file has tables,
// until a VACUUM.
func (i *installer) enableVacuum(ctx context.Context, version int) error {
	if version > 0 {
		return nil
	}
	_, err := i.writer.ExecContext(ctx, "PRAGMA auto_vacuum = INCREMENTAL")
	return err
}

// vacuumUpgraded makes a file that was written again as small as a new one. The file is complete
// without it, so that a failure, such as another process that reads, is only logged.
func (i *installer) vacuumUpgraded(ctx context.Context, version int) error {
	if version == 0 || version >= withoutFailureIndexes {
		return nil
	}
	if _, err := i.writer.ExecContext(ctx, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM"); err != nil {
		i.logger.Warn("the upgraded store keeps its size", "path", i.path, "error", err)
	}
	return ctx.Err()
}

// enableWAL turns on the write-ahead log. SQLite does not wait here for the lock of
// another process, so enableWAL repeats the statement until the timeout.
func (i *installer) enableWAL(ctx context.Context) error {
	pauses := backoff.Backoff{Min: time.Millisecond, Max: 100 * time.Millisecond}
	deadline := time.Now().Add(i.timeout)
	for failures := 1; ; failures++ {
		_, err := i.writer.ExecContext(ctx, "PRAGMA journal_mode = WAL")
		if err == nil || errorKind(err) != eventstore.Overloaded || time.Now().After(deadline) {
			return err
		}
		if err := pauses.Wait(ctx, failures, 0); err != nil {
			return err
		}
	}
}

// createSchema checks the version again, now that no other process can write.
func (i *installer) createSchema(ctx context.Context, tx *sql.Tx) error {
	version, err := i.readVersion(ctx, tx)
	if err != nil || version == schemaVersion {
		return err
	}
	if version > 0 {
		return i.upgrade(ctx, tx, version)
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf("%s; PRAGMA application_id = %d; PRAGMA user_version = %d",
		tables+streamColumns+timeColumns+periodColumn+receiverColumn+countTables+failureIndexes+recordTable, applicationID, schemaVersion))
	return err
}

// Check returns an error unless the file exists and has the version that this
// Watership writes.
func (f *file) Check(ctx context.Context) error {
	version, err := f.fileVersion(ctx)
	switch {
	case err != nil:
		return err
	case version == 0:
		return f.notInstalled()
	case version < schemaVersion:
		return fmt.Errorf("the store %s has version %d, this Watership needs %d: run `watership setup`", f.path, version, schemaVersion)
	}
	return nil
}

func (f *file) notInstalled() error {
	return fmt.Errorf("there is no store in %s yet: run `watership setup`", f.path)
}

// fileVersion is 0 for a file that is missing or empty.
func (f *file) fileVersion(ctx context.Context) (int, error) {
	if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return f.readVersion(ctx, f.readers)
}

func (f *file) readVersion(ctx context.Context, from interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) (int, error) {
	var id, version, tables int
	row := from.QueryRowContext(ctx, `SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id, pragma_user_version`)
	if err := row.Scan(&id, &version, &tables); err != nil {
		return 0, f.storeError("reading the version", err)
	}
	switch {
	case id != applicationID && tables > 0:
		return 0, fmt.Errorf("%s is a SQLite file of another program: choose another path for the store", f.path)
	case id == applicationID && version > schemaVersion:
		return 0, fmt.Errorf("%s has version %d, this Watership knows up to %d: upgrade it", f.path, version, schemaVersion)
	case id != applicationID:
		return 0, nil
	}
	return version, nil
}

// Refresh only checks that SQLite can read the file: new events are visible at once.
func (f *file) Refresh(ctx context.Context) error {
	if err := f.readers.PingContext(ctx); err != nil {
		return f.storeError("refreshing", err)
	}
	return nil
}

// Clock returns the time of this machine, which is also the clock of the store.
func (f *file) Clock(ctx context.Context) (time.Time, error) {
	return time.Now(), f.Check(ctx)
}

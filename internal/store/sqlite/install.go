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
)

//go:embed schema.sql
var schema string

const (
	// fileVersion is that of schema.sql (PRAGMA user_version).
	fileVersion = 3

	// fileMark says that a file is ours (PRAGMA application_id): "WTSH".
	fileMark = 0x57545348
)

// Install makes the file, or upgrades one that an older Watership made. Running it
// again, or twice at once, does no harm. It changes nothing and returns an error
// if the file is not ours or is of a newer version.
func (s *Store) Install(ctx context.Context) error {
	file, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600) // messages are nobody else's business
	if err != nil {
		return fmt.Errorf("making the SQLite store: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("making the SQLite store: %w", err)
	}
	version, err := s.version(ctx)
	if err != nil || version == fileVersion {
		return err
	}
	if _, err := s.writer.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil {
		return s.failed("making the file", err)
	}
	return s.write(ctx, "making the tables", func(tx *sql.Tx) error { return s.make(ctx, tx) })
}

// make asks once more, now that nobody else can be making it.
func (s *Store) make(ctx context.Context, tx *sql.Tx) error {
	version, err := s.versionIn(ctx, tx)
	if err != nil || version == fileVersion {
		return err
	}
	if version > 0 {
		return s.upgrade(ctx, tx, version)
	}
	_, err = tx.ExecContext(ctx, fmt.Sprintf("%s; PRAGMA application_id = %d; PRAGMA user_version = %d", schema, fileMark, fileVersion))
	return err
}

// Check says whether events can be kept: whether there is a file of ours, of the
// version that this Watership writes.
func (s *Store) Check(ctx context.Context) error {
	version, err := s.version(ctx)
	switch {
	case err != nil:
		return err
	case version == 0:
		return s.missing()
	case version < fileVersion:
		return fmt.Errorf("the store %s has version %d, this Watership needs %d: run `watership setup`", s.path, version, fileVersion)
	}
	return nil
}

func (s *Store) missing() error {
	return fmt.Errorf("there is no store in %s yet: run `watership setup`", s.path)
}

// version is that of the file, 0 if it is empty or not there.
func (s *Store) version(ctx context.Context) (int, error) {
	if _, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return s.versionIn(ctx, s.readers)
}

func (s *Store) versionIn(ctx context.Context, from interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
},
) (int, error) {
	var mark, version, tables int
	row := from.QueryRowContext(ctx, `SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id, pragma_user_version`)
	if err := row.Scan(&mark, &version, &tables); err != nil {
		return 0, s.failed("reading the version", err)
	}
	switch {
	case mark != fileMark && tables > 0:
		return 0, fmt.Errorf("%s is a SQLite file of something else: choose another path for the store", s.path)
	case mark == fileMark && version > fileVersion:
		return 0, fmt.Errorf("%s has version %d, this Watership knows up to %d: upgrade it", s.path, version, fileVersion)
	case mark != fileMark:
		return 0, nil
	}
	return version, nil
}

// Refresh is there for those who hold any store: in this one, what was created
// is visible at once.
func (s *Store) Refresh(ctx context.Context) error {
	if err := s.readers.PingContext(ctx); err != nil {
		return s.failed("making new documents visible", err)
	}
	return nil
}

// Clock is what time it is for the store, whose clock is this machine's.
func (s *Store) Clock(ctx context.Context) (time.Time, error) {
	return time.Now(), s.Check(ctx)
}

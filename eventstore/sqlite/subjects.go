package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"

	"github.com/watershipmq/watership/eventstore"
)

// subjectsSuffix ends the name of the file with the keys of subjects, after the path of the store, unless
// Config.Subjects names it.
const subjectsSuffix = ".subjects"

// subjects are the keys of subjects. A second file has them, so that a copy of the events does not, and a key that
// was destroyed is in no page and in no log of the first.
type subjects struct {
	events   records // note that there are keys
	keysPath string
	keys     *sql.DB
}

// keysRecord is the kind and the id of the record that the file of the keys exists. If it is missing then, as on a disk that is not
// mounted, nothing is taken for erased, and no second file gets keys.
const keysRecord = "subject_keys"

// newSubjects opens no connection yet. SQLite overwrites deleted keys (secure_delete), and a journal that it
// deletes with each transaction has former pages no longer than that.
func newSubjects(driver *sqlite.Driver, cfg Config, events records) subjects {
	cfg.Path = cfg.Subjects
	keys := sql.OpenDB(connector{driver, dsn(cfg, "_txlock=immediate&_pragma=secure_delete(1)&_pragma=journal_mode(DELETE)")})
	keys.SetMaxOpenConns(1)
	return subjects{events, cfg.Path, keys}
}

// checkSubjects refuses a file of the keys that cannot be made, and one in another place while keys are still beside the
// store: all that was recorded about their subjects would count as erased, or their keys would outlive an erasure.
func checkSubjects(cfg Config) error {
	former := cfg.Path + subjectsSuffix
	if former == cfg.Subjects {
		return nil
	}
	info, err := os.Stat(cfg.Subjects)
	isThere := err == nil
	switch {
	case isThere && info.IsDir():
		return fmt.Errorf("the file for the keys of subjects, %s, is a directory: give the path of a file in it", cfg.Subjects)
	case !isThere && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("opening the keys of subjects: %w", err)
	}
	if _, err := os.Stat(filepath.Dir(cfg.Subjects)); err != nil {
		return fmt.Errorf("the folder for the keys of subjects is needed before its file, so make it, or mount its disk: %w", err)
	}
	switch _, err := os.Stat(former); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("looking for keys of subjects beside the store: %w", err)
	case isThere:
		return fmt.Errorf("keys of subjects are in %s and still in %s, where an erasure does not reach them: keep the file that was written last in the first place, and delete the other", cfg.Subjects, former)
	default:
		return fmt.Errorf("the keys of subjects are in %s, and not in %s: move the file there while no process uses it", former, cfg.Subjects)
	}
}

// haveKeys reports whether there is a file of the keys. It fails if there was one.
func (s *subjects) haveKeys(ctx context.Context) (bool, error) {
	if _, err := os.Stat(s.keysPath); !errors.Is(err, fs.ErrNotExist) {
		return err == nil, err
	}
	if _, err := os.Stat(s.events.path); errors.Is(err, fs.ErrNotExist) {
		return false, nil // before the first event
	}
	noted, _, err := s.events.Record(ctx, keysRecord, keysRecord)
	if err == nil && noted != nil {
		err = errors.New("the file is missing: bring it back, or name where it is, since nothing about a subject can be read, recorded or erased without it")
	}
	return false, err
}

// SubjectKeys returns the keys of those subjects that have one.
func (s *subjects) SubjectKeys(ctx context.Context, of []string) (map[string][]byte, error) {
	if exists, err := s.haveKeys(ctx); err != nil || !exists {
		return nil, s.keysError("reading the keys of subjects", err)
	}
	return s.readKeys(ctx, s.keys, of)
}

// keysError is storeError for the file of the keys, which may be missing beside the file of the events.
func (s *subjects) keysError(operation string, err error) error {
	if _, already := errors.AsType[*eventstore.Error](err); err == nil || already {
		return err
	}
	return &eventstore.Error{Kind: errorKind(err), Reason: fmt.Sprintf("%s in the SQLite file %s", operation, s.keysPath), Err: oneLineError{err}}
}

// subjectsAtOnce bounds the parameters of a statement.
const subjectsAtOnce = 1000

func (s *subjects) readKeys(ctx context.Context, from queryer, of []string) (map[string][]byte, error) {
	const operation = "reading the keys of subjects"
	found := map[string][]byte{}
	for len(of) > 0 {
		some := of[:min(len(of), subjectsAtOnce)]
		of = of[len(some):]
		if err := readSome(ctx, from, some, found); err != nil {
			return nil, s.keysError(operation, err)
		}
	}
	return found, nil
}

func readSome(ctx context.Context, from queryer, of []string, found map[string][]byte) error {
	args := make([]any, len(of))
	for i, subject := range of {
		args[i] = subject
	}
	rows, err := from.QueryContext(ctx, "SELECT id, key FROM subject WHERE id IN (?"+strings.Repeat(",?", len(of)-1)+")", args...)
	if err != nil && strings.Contains(err.Error(), "no such table") {
		return nil // it was created just now
	}
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var subject string
		var key []byte
		if err := rows.Scan(&subject, &key); err != nil {
			return err
		}
		found[subject] = key
	}
	return rows.Err()
}

// KeepSubjectKeys keeps keys of subjects that have none, and returns the key that each has then. The first
// creates the file.
func (s *subjects) KeepSubjectKeys(ctx context.Context, keys map[string][]byte) (kept map[string][]byte, err error) {
	_, err = s.haveKeys(ctx)
	if err == nil {
		err = createFile(s.keysPath)
	}
	if err != nil {
		return nil, s.keysError("keeping the keys of subjects", err)
	}
	err = s.change(ctx, "keeping the keys of subjects", func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS subject (id TEXT PRIMARY KEY, key BLOB NOT NULL) WITHOUT ROWID"); err != nil {
			return err
		}
		of := make([]string, 0, len(keys))
		for subject, key := range keys {
			of = append(of, subject)
			if _, err := tx.ExecContext(ctx, "INSERT INTO subject (id, key) VALUES (?, ?) ON CONFLICT DO NOTHING", subject, key); err != nil {
				return err
			}
		}
		kept, err = s.readKeys(ctx, tx, of)
		return err
	})
	if err == nil {
		_, err = s.events.CreateRecord(ctx, keysRecord, keysRecord, []byte(`{}`))
	}
	if err != nil {
		return nil, err
	}
	return kept, nil
}

// DestroySubjectKeys deletes keys of subjects, and returns the subjects that had one.
func (s *subjects) DestroySubjectKeys(ctx context.Context, of []string) (destroyed []string, err error) {
	found, err := s.SubjectKeys(ctx, of)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	err = s.change(ctx, "destroying the key of a subject", func(tx *sql.Tx) error {
		for _, subject := range of {
			result, err := tx.ExecContext(ctx, "DELETE FROM subject WHERE id = ?", subject)
			if err != nil {
				return err
			}
			if n, err := result.RowsAffected(); err == nil && n > 0 {
				destroyed = append(destroyed, subject)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return destroyed, nil
}

func (s *subjects) change(ctx context.Context, operation string, do func(tx *sql.Tx) error) error {
	tx, err := s.keys.BeginTx(ctx, nil)
	if err != nil {
		return s.keysError(operation, err)
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // the first error is the cause
		return s.keysError(operation, err)
	}
	return s.keysError(operation, tx.Commit())
}

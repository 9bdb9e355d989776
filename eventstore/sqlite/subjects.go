package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	keysPath string
	keys     *sql.DB
}

// newSubjects opens no connection yet. SQLite overwrites deleted keys (secure_delete), and a journal that it
// deletes with each transaction has former pages no longer than that.
func newSubjects(driver *sqlite.Driver, cfg Config) subjects {
	cfg.Path = cfg.Subjects
	keys := sql.OpenDB(connector{driver, dsn(cfg, "_txlock=immediate&_pragma=secure_delete(1)&_pragma=journal_mode(DELETE)")})
	keys.SetMaxOpenConns(1)
	return subjects{cfg.Path, keys}
}

// checkMoved refuses a file that is not there yet while keys are in the one beside the store: all that was recorded
// about their subjects would count as erased.
func checkMoved(cfg Config) error {
	former := cfg.Path + subjectsSuffix
	if _, err := os.Stat(cfg.Subjects); former == cfg.Subjects || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(former); err != nil {
		return nil
	}
	return fmt.Errorf("the keys of subjects are in %s, and not in %s: move the file there while no process uses it", former, cfg.Subjects)
}

// SubjectKeys returns the keys of those subjects that have one.
func (s *subjects) SubjectKeys(ctx context.Context, of []string) (map[string][]byte, error) {
	if _, err := os.Stat(s.keysPath); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
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
	if err := createFile(s.keysPath); err != nil {
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
	return kept, err
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

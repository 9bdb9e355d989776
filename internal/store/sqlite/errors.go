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

	"github.com/watershipmq/watership/schemas"
)

// SQLite's primary result codes (https://www.sqlite.org/rescode.html).
const (
	codePermission = 3
	codeBusy       = 5
	codeLocked     = 6
	codeReadOnly   = 8
	codeCorrupt    = 11
	codeFull       = 13
	codeTooBig     = 18
	codeNotADB     = 26
)

// failed is a request that failed as a whole. doing says what was being done,
// such as "counting events".
func (s *Store) failed(doing string, err error) error {
	var already *schemas.StoreError
	if err == nil || errors.As(err, &already) {
		return err
	}
	reason := fmt.Sprintf("%s in the SQLite store %s", doing, s.path)
	if _, gone := os.Stat(s.path); errors.Is(gone, fs.ErrNotExist) || strings.Contains(err.Error(), "no such table") {
		return &schemas.StoreError{Kind: schemas.StoreDenied, Reason: reason, Err: s.missing()}
	}
	return &schemas.StoreError{Kind: kind(err), Reason: reason, Err: line{err}}
}

// kind says what to do about an error.
func kind(err error) schemas.StoreErrorKind {
	var failed *sqlite.Error
	if !errors.As(err, &failed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return schemas.StoreAway
	}
	switch failed.Code() & 0xff {
	case codeBusy, codeLocked: // another process writes
		return schemas.StoreBusy
	case codePermission, codeReadOnly, codeFull, codeCorrupt, codeNotADB:
		return schemas.StoreDenied
	case codeTooBig:
		return schemas.StoreTooLarge
	}
	return schemas.StoreAway
}

// line is an error on one line.
type line struct{ error }

func (l line) Error() string { return strings.Join(strings.Fields(l.error.Error()), " ") }

func (l line) Unwrap() error { return l.error }

// write does all of something or nothing, alone among those who write.
func (s *Store) write(ctx context.Context, doing string, do func(tx *sql.Tx) error) error {
	tx, err := s.writer.BeginTx(ctx, nil)
	if err != nil {
		return s.failed(doing, err)
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // the first error says more
		return s.failed(doing, err)
	}
	return s.failed(doing, tx.Commit())
}

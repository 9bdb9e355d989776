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

// SQLite's primary result codes (https://www.sqlite.org/rescode.html).
const (
	resultPerm     = 3
	resultBusy     = 5
	resultLocked   = 6
	resultReadOnly = 8
	resultCorrupt  = 11
	resultFull     = 13
	resultTooBig   = 18
	resultNotADB   = 26
)

// storeError makes a *eventstore.Error of an error. operation says what failed,
// such as "counting events".
func (f *file) storeError(operation string, err error) error {
	var already *eventstore.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	reason := fmt.Sprintf("%s in the SQLite store %s", operation, f.path)
	if _, gone := os.Stat(f.path); errors.Is(gone, fs.ErrNotExist) || strings.Contains(err.Error(), "no such table") {
		return &eventstore.Error{Kind: eventstore.Unauthorized, Reason: reason, Err: f.notInstalled()}
	}
	return &eventstore.Error{Kind: errorKind(err), Reason: reason, Err: oneLineError{err}}
}

// errorKind maps a result code of SQLite to the remedy.
func errorKind(err error) eventstore.ErrorKind {
	var failed *sqlite.Error
	if !errors.As(err, &failed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return eventstore.Unavailable
	}
	switch failed.Code() & 0xff {
	case resultBusy, resultLocked: // another process writes
		return eventstore.Overloaded
	case resultPerm, resultReadOnly, resultFull, resultCorrupt, resultNotADB:
		return eventstore.Unauthorized
	case resultTooBig:
		return eventstore.RequestTooLarge
	}
	return eventstore.Unavailable
}

// oneLineError prints an error on one line.
type oneLineError struct{ error }

func (l oneLineError) Error() string { return strings.Join(strings.Fields(l.error.Error()), " ") }

func (l oneLineError) Unwrap() error { return l.error }

// write runs do in a transaction. SQLite lets only one write at a time.
func (f *file) write(ctx context.Context, operation string, do func(tx *sql.Tx) error) error {
	tx, err := f.writer.BeginTx(ctx, nil)
	if err != nil {
		return f.storeError(operation, err)
	}
	if err := do(tx); err != nil {
		_ = tx.Rollback() // the first error is the cause
		return f.storeError(operation, err)
	}
	return f.storeError(operation, tx.Commit())
}

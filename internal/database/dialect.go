// Package database has the SQL in which SQLite and PostgreSQL differ, and leases in a table.
// Its statements have numbered parameters, which the drivers of both accept.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/watershipmq/watership/retry"
)

// Dialect is the SQL of a database.
type Dialect struct {
	Name     string
	Now      string // the time of the database in microseconds since 1970
	Blob     string // type of bytes
	Identity string // type of a key that the database counts

	// IsPostgreSQL: a statement that fails ends its transaction, and locks are of rows and
	// tables, not of the database.
	IsPostgreSQL bool
}

func sqlite() Dialect {
	return Dialect{
		Name: "SQLite", Now: "CAST((julianday('now') - 2440587.5) * 86400000000 AS INTEGER)",
		Blob: "BLOB", Identity: "INTEGER PRIMARY KEY AUTOINCREMENT",
	}
}

func postgreSQL() Dialect {
	return Dialect{
		Name: "PostgreSQL", Now: "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)",
		Blob: "BYTEA", Identity: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", IsPostgreSQL: true,
	}
}

// DialectOf asks a database which one it is. Its errors are permanent (see package retry) if
// the database cannot be used.
func DialectOf(ctx context.Context, db *sql.DB) (Dialect, error) {
	if err := db.PingContext(ctx); err != nil {
		return Dialect{}, fmt.Errorf("connecting to the database: %w", err)
	}
	var version string
	err := db.QueryRowContext(ctx, "SELECT version()").Scan(&version)
	if err != nil && db.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&version) == nil {
		return sqlite(), checkBusyTimeout(ctx, db)
	}
	if err != nil {
		return Dialect{}, fmt.Errorf("asking the database for its version: %w", err)
	}
	if !strings.HasPrefix(version, "PostgreSQL ") {
		return Dialect{}, retry.Permanent(fmt.Errorf("the database is %s: expected SQLite or PostgreSQL", version))
	}
	return postgreSQL(), nil
}

// A SQLite without a busy timeout fails whenever another connection writes.
func checkBusyTimeout(ctx context.Context, db *sql.DB) error {
	var milliseconds int
	if err := db.QueryRowContext(ctx, "PRAGMA busy_timeout").Scan(&milliseconds); err != nil {
		return fmt.Errorf("reading the busy timeout of SQLite: %w", err)
	}
	if milliseconds == 0 {
		return retry.Permanent(errors.New("the SQLite database has no busy timeout: open it with PRAGMA busy_timeout, as by _pragma=busy_timeout(10000) of modernc.org/sqlite"))
	}
	return nil
}

// Create runs statements that create tables, unless the last of the tables exists. PostgreSQL
// lets two processes that create the same table at once fail, so it tries again.
func Create(ctx context.Context, db *sql.DB, last string, statements ...string) error {
	if _, err := db.ExecContext(ctx, "SELECT 1 FROM "+last+" WHERE 1 = 0"); err == nil {
		return nil
	}
	const tries = 5
	for try := 1; ; try++ {
		err := InTx(ctx, db, func(tx *sql.Tx) error { return Exec(ctx, tx, statements...) })
		if err == nil || try == tries || ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Duration(try) * 20 * time.Millisecond)
	}
}

// AddColumns adds columns to a table, unless they exist. A column is its name and its definition.
func AddColumns(ctx context.Context, db *sql.DB, table string, columns ...string) error {
	for _, column := range columns {
		name, _, _ := strings.Cut(column, " ")
		isThere := func() bool {
			_, err := db.ExecContext(ctx, "SELECT "+name+" FROM "+table+" WHERE 1 = 0")
			return err == nil
		}
		if isThere() {
			continue
		}
		_, err := db.ExecContext(ctx, "ALTER TABLE "+table+" ADD COLUMN "+column)
		if err != nil && !isThere() { // another process may have added it
			return fmt.Errorf("adding column %s to table %s: %w", name, table, err)
		}
	}
	return nil
}

// maxText is the number of bytes of a text that reports a failure.
const maxText = 8 << 10

// Text returns the text of an error as PostgreSQL accepts it: valid UTF-8 without NUL, which an error
// that quotes a body may have, and of bounded length.
func Text(err error) string {
	text := err.Error()
	if len(text) > maxText {
		text = text[:maxText]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// Exec runs statements without parameters.
func Exec(ctx context.Context, tx *sql.Tx, statements ...string) error {
	for _, statement := range statements {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// InTx runs do in a transaction, and commits it unless do fails or panics.
func InTx(ctx context.Context, db *sql.DB, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("beginning a transaction: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	if err := do(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("committing a transaction: %w", err)
	}
	return nil
}

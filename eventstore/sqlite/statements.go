package sqlite

import (
	"context"
	"database/sql"
	"sync"
)

// statements keeps prepared statements of a database as long as it is open, since preparing costs more than most of
// them. Each stays, so that only a text that is a constant may be one.
type statements struct {
	database *sql.DB

	mu       sync.Mutex // guards prepared
	prepared map[string]*sql.Stmt
}

func newStatements(database *sql.DB) *statements {
	return &statements{database: database, prepared: map[string]*sql.Stmt{}}
}

// get returns a statement, which the caller does not close. It may wait for a connection, and so must not be called
// in a transaction of the writer.
func (s *statements) get(ctx context.Context, text string) (*sql.Stmt, error) {
	if known := s.known(text); known != nil {
		return known, nil
	}
	made, err := s.database.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.prepared[text]; known != nil {
		_ = made.Close()
		return known, nil
	}
	s.prepared[text] = made
	return made, nil
}

// statementIn returns a statement of a transaction of the writer: one that was prepared before it, or one that is closed
// with it.
func (f *file) statementIn(ctx context.Context, tx *sql.Tx, text string) (*sql.Stmt, error) {
	if known := f.writing.known(text); known != nil {
		return tx.StmtContext(ctx, known), nil
	}
	return tx.PrepareContext(ctx, text)
}

// known returns a statement that get has returned before, or nil.
func (s *statements) known(text string) *sql.Stmt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prepared[text]
}

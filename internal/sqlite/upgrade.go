package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// upgrade makes of a file what schema.sql makes now. It does all of it or nothing.
func (s *Store) upgrade(ctx context.Context, tx *sql.Tx, version int) error {
	steps := []func(context.Context, *sql.Tx) error{
		1: s.addHandover,
	}
	s.logger.Info("upgrading the store", "path", s.path, "from", version, "to", fileVersion)
	for _, step := range steps[version:] {
		if err := step(ctx, tx); err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", fileVersion))
	return err
}

func (s *Store) addHandover(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "CREATE TABLE handover (name TEXT PRIMARY KEY, document BLOB NOT NULL)")
	return err
}

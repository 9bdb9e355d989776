package sqlite

import (
	"context"
	"database/sql"
	"errors"
)

// Handover returns the last document that SaveHandover saved under a name, or nil.
func (s *Store) Handover(ctx context.Context, name string) ([]byte, error) {
	var document []byte
	err := s.readers.QueryRowContext(ctx, "SELECT document FROM handover WHERE name = ?", name).Scan(&document)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return document, s.storeError("reading handover "+name, err)
}

// SaveHandover saves a JSON document under a name, and replaces the one before.
func (s *Store) SaveHandover(ctx context.Context, name string, document []byte) error {
	_, err := s.exec(ctx, "saving handover "+name,
		"INSERT INTO handover (name, document) VALUES (?, ?) ON CONFLICT DO UPDATE SET document = excluded.document", name, document)
	return err
}

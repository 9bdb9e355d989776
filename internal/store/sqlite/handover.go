package sqlite

import (
	"context"
	"database/sql"
	"errors"
)

// Handover gives the document that SaveHandover kept last under a name, nil where
// there is none.
func (s *Store) Handover(ctx context.Context, name string) ([]byte, error) {
	var document []byte
	err := s.readers.QueryRowContext(ctx, "SELECT document FROM handover WHERE name = ?", name).Scan(&document)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return document, s.failed("reading handover "+name, err)
}

// SaveHandover keeps a JSON document under a name, in the place of the one before.
func (s *Store) SaveHandover(ctx context.Context, name string, document []byte) error {
	_, err := s.change(ctx, "keeping handover "+name,
		"INSERT INTO handover (name, document) VALUES (?, ?) ON CONFLICT DO UPDATE SET document = excluded.document", name, document)
	return err
}

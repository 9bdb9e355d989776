package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strconv"
)

// records are small documents that change, such as subscriptions.
type records struct{ *file }

// CreateRecord saves a new JSON document under a kind and an id, and returns its version. It
// changes nothing and returns "" if there is one.
func (r *records) CreateRecord(ctx context.Context, kind, id string, document []byte) (string, error) {
	created, err := r.exec(ctx, "creating "+kind+" "+id,
		"INSERT INTO record (kind, id, version, document) VALUES (?, ?, 1, ?) ON CONFLICT DO NOTHING", kind, id, document)
	if err != nil || !created {
		return "", err
	}
	return "1", nil
}

// SaveRecord replaces a record if its version is still the given one, and returns the new
// version. Otherwise it changes nothing and returns "".
func (r *records) SaveRecord(ctx context.Context, kind, id, version string, document []byte) (string, error) {
	current, err := parseVersion(kind, version)
	if err != nil {
		return "", err
	}
	saved, err := r.exec(ctx, "saving "+kind+" "+id,
		"UPDATE record SET version = version + 1, document = ? WHERE kind = ? AND id = ? AND version = ?", document, kind, id, current)
	if err != nil || !saved {
		return "", err
	}
	return strconv.FormatInt(current+1, 10), nil
}

// DeleteRecord deletes a record if its version is still the given one, and reports whether
// it was.
func (r *records) DeleteRecord(ctx context.Context, kind, id, version string) (bool, error) {
	current, err := parseVersion(kind, version)
	if err != nil {
		return false, err
	}
	return r.exec(ctx, "deleting "+kind+" "+id, "DELETE FROM record WHERE kind = ? AND id = ? AND version = ?", kind, id, current)
}

func parseVersion(kind, version string) (int64, error) {
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no version of a %s", version, kind)
	}
	return n, nil
}

// exec reports whether a statement, whose text is a constant, changed a row.
func (f *file) exec(ctx context.Context, operation, statement string, args ...any) (changed bool, err error) {
	prepared, err := f.writing.get(ctx, statement)
	if err != nil {
		return false, f.storeError(operation, err)
	}
	result, err := prepared.ExecContext(ctx, args...)
	if err != nil {
		return false, f.storeError(operation, err)
	}
	rows, err := result.RowsAffected()
	return rows > 0, f.storeError(operation, err)
}

// Record returns the last saved document of a record and its version, or nil.
func (r *records) Record(ctx context.Context, kind, id string) ([]byte, string, error) {
	var document []byte
	var version string
	read, err := r.reading.get(ctx, "SELECT document, version FROM record WHERE kind = ? AND id = ?")
	if err == nil {
		err = read.QueryRowContext(ctx, kind, id).Scan(&document, &version)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return nil, "", nil
	}
	return document, version, r.storeError("reading "+kind+" "+id, err)
}

// Records reads all records of a kind that exist when the reading begins, the highest id
// first.
func (r *records) Records(ctx context.Context, kind string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		ids, err := r.recordIDs(ctx, kind)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, id := range ids {
			document, _, err := r.Record(ctx, kind, id)
			if document == nil && err == nil {
				continue
			}
			if !yield(document, err) || err != nil {
				return
			}
		}
	}
}

func (r *records) recordIDs(ctx context.Context, kind string) (ids []string, err error) {
	operation := fmt.Sprintf("reading %ss", kind)
	rows, err := r.readers.QueryContext(ctx, "SELECT id FROM record WHERE kind = ? ORDER BY id DESC", kind)
	if err != nil {
		return nil, r.storeError(operation, err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, r.storeError(operation, err)
		}
		ids = append(ids, id)
	}
	return ids, r.storeError(operation, rows.Err())
}

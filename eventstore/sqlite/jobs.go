package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/watershipmq/watership/eventstore"
)

// CreateJob saves a new job, a JSON document, and returns its version. It fails if
// the id exists.
func (s *Store) CreateJob(ctx context.Context, id string, document []byte) (string, error) {
	operation := "creating job " + id
	created, err := s.exec(ctx, operation, "INSERT INTO job (id, version, document) VALUES (?, 1, ?) ON CONFLICT DO NOTHING", id, document)
	if err == nil && !created {
		err = &eventstore.Error{Kind: eventstore.BadRequest, Reason: operation + ": the id exists"}
	}
	if err != nil {
		return "", err
	}
	return "1", nil
}

// SaveJob replaces a job if its version is still the given one, and returns the new
// version. Otherwise it changes nothing and returns "".
func (s *Store) SaveJob(ctx context.Context, id, version string, document []byte) (string, error) {
	current, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return "", fmt.Errorf("%q is no version of a job", version)
	}
	saved, err := s.exec(ctx, "saving job "+id,
		"UPDATE job SET version = version + 1, document = ? WHERE id = ? AND version = ?", document, id, current)
	if err != nil || !saved {
		return "", err
	}
	return strconv.FormatInt(current+1, 10), nil
}

// exec reports whether a statement changed a row.
func (s *Store) exec(ctx context.Context, operation, statement string, args ...any) (changed bool, err error) {
	result, err := s.writer.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, s.storeError(operation, err)
	}
	rows, err := result.RowsAffected()
	return rows > 0, s.storeError(operation, err)
}

// Job returns the last saved document of a job and its version, or nil.
func (s *Store) Job(ctx context.Context, id string) ([]byte, string, error) {
	var document []byte
	var version string
	row := s.readers.QueryRowContext(ctx, "SELECT document, version FROM job WHERE id = ?", id)
	err := row.Scan(&document, &version)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, "", nil
	}
	return document, version, s.storeError("reading job "+id, err)
}

// KnownJobs returns the ids for which there is a job.
func (s *Store) KnownJobs(ctx context.Context, ids []string) (map[string]bool, error) {
	known := map[string]bool{}
	for _, id := range ids {
		document, _, err := s.Job(ctx, id)
		if err != nil {
			return nil, err
		}
		if document != nil {
			known[id] = true
		}
	}
	return known, nil
}

// Jobs reads all jobs that exist when the reading begins, the highest id first.
func (s *Store) Jobs(ctx context.Context) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		ids, err := s.jobIDs(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, id := range ids {
			document, _, err := s.Job(ctx, id)
			if document == nil && err == nil {
				continue
			}
			if !yield(document, err) || err != nil {
				return
			}
		}
	}
}

func (s *Store) jobIDs(ctx context.Context) ([]string, error) {
	const operation = "reading jobs"
	rows, err := s.readers.QueryContext(ctx, "SELECT id FROM job ORDER BY id DESC")
	if err != nil {
		return nil, s.storeError(operation, err)
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, s.storeError(operation, err)
		}
		ids = append(ids, id)
	}
	return ids, s.storeError(operation, rows.Err())
}

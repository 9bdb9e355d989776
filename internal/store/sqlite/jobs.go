package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/watershipmq/watership/schemas"
)

// CreateJob keeps a new job, a JSON document, and gives its version. It fails
// where there is a job of that id.
func (s *Store) CreateJob(ctx context.Context, id string, document []byte) (string, error) {
	doing := "keeping job " + id
	made, err := s.change(ctx, doing, "INSERT INTO job (id, version, document) VALUES (?, 1, ?) ON CONFLICT DO NOTHING", id, document)
	if err == nil && !made {
		err = &schemas.StoreError{Kind: schemas.StoreRefused, Reason: doing + ": there is one already"}
	}
	if err != nil {
		return "", err
	}
	return "1", nil
}

// SaveJob replaces a job, unless it was saved since version was given: then it
// changes nothing and gives "".
func (s *Store) SaveJob(ctx context.Context, id, version string, document []byte) (string, error) {
	was, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return "", fmt.Errorf("%q is no version of a job", version)
	}
	saved, err := s.change(ctx, "saving job "+id,
		"UPDATE job SET version = version + 1, document = ? WHERE id = ? AND version = ?", document, id, was)
	if err != nil || !saved {
		return "", err
	}
	return strconv.FormatInt(was+1, 10), nil
}

// change says whether a statement changed anything.
func (s *Store) change(ctx context.Context, doing, statement string, args ...any) (changed bool, err error) {
	result, err := s.writer.ExecContext(ctx, statement, args...)
	if err != nil {
		return false, s.failed(doing, err)
	}
	rows, err := result.RowsAffected()
	return rows > 0, s.failed(doing, err)
}

// Job gives a job as it was saved last, and its version; nil where there is none.
func (s *Store) Job(ctx context.Context, id string) ([]byte, string, error) {
	var document []byte
	var version string
	row := s.readers.QueryRowContext(ctx, "SELECT document, version FROM job WHERE id = ?", id)
	err := row.Scan(&document, &version)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, "", nil
	}
	return document, version, s.failed("reading job "+id, err)
}

// KnownJobs says which jobs there are, of those with some ids.
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

// Jobs gives all jobs that were kept before, the highest id first.
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
	const doing = "reading jobs"
	rows, err := s.readers.QueryContext(ctx, "SELECT id FROM job ORDER BY id DESC")
	if err != nil {
		return nil, s.failed(doing, err)
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, s.failed(doing, err)
		}
		ids = append(ids, id)
	}
	return ids, s.failed(doing, rows.Err())
}

package sqlite

import (
	"context"
	"iter"

	"github.com/watershipmq/watership/eventstore"
)

// Kinds of records.
const (
	jobRecord      = "job" // as the replayer writes them
	handoverRecord = "handover"
)

// CreateJob saves a new job, a JSON document, and returns its version. It fails if
// the id exists.
func (s *Store) CreateJob(ctx context.Context, id string, document []byte) (string, error) {
	version, err := s.CreateRecord(ctx, jobRecord, id, document)
	if err == nil && version == "" {
		err = &eventstore.Error{Kind: eventstore.BadRequest, Reason: "creating job " + id + ": the id exists"}
	}
	return version, err
}

// SaveJob replaces a job if its version is still the given one, and returns the new
// version. Otherwise it changes nothing and returns "".
func (s *Store) SaveJob(ctx context.Context, id, version string, document []byte) (string, error) {
	return s.SaveRecord(ctx, jobRecord, id, version, document)
}

// Job returns the last saved document of a job and its version, or nil.
func (s *Store) Job(ctx context.Context, id string) ([]byte, string, error) {
	return s.Record(ctx, jobRecord, id)
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
	return s.Records(ctx, jobRecord)
}

// Handover returns the last document that SaveHandover saved under a name, or nil.
func (s *Store) Handover(ctx context.Context, name string) ([]byte, error) {
	document, _, err := s.Record(ctx, handoverRecord, name)
	return document, err
}

// SaveHandover saves a JSON document under a name, and replaces the one before.
func (s *Store) SaveHandover(ctx context.Context, name string, document []byte) error {
	_, err := s.exec(ctx, "saving handover "+name,
		"INSERT INTO record (kind, id, version, document) VALUES (?, ?, 1, ?) ON CONFLICT DO UPDATE SET document = excluded.document, version = version + 1",
		handoverRecord, name, document)
	return err
}

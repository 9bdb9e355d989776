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

// jobs are the jobs of the replayer.
type jobs struct{ records }

// CreateJob saves a new job, a JSON document, and returns its version. It fails if
// the id exists.
func (j *jobs) CreateJob(ctx context.Context, id string, document []byte) (string, error) {
	version, err := j.CreateRecord(ctx, jobRecord, id, document)
	if err == nil && version == "" {
		err = &eventstore.Error{Kind: eventstore.BadRequest, Reason: "creating job " + id + ": the id exists"}
	}
	return version, err
}

// SaveJob replaces a job if its version is still the given one, and returns the new
// version. Otherwise it changes nothing and returns "".
func (j *jobs) SaveJob(ctx context.Context, id, version string, document []byte) (string, error) {
	return j.SaveRecord(ctx, jobRecord, id, version, document)
}

// Job returns the last saved document of a job and its version, or nil.
func (j *jobs) Job(ctx context.Context, id string) ([]byte, string, error) {
	return j.Record(ctx, jobRecord, id)
}

// KnownJobs returns the ids for which there is a job.
func (j *jobs) KnownJobs(ctx context.Context, ids []string) (map[string]bool, error) {
	known := map[string]bool{}
	for _, id := range ids {
		document, _, err := j.Job(ctx, id)
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
func (j *jobs) Jobs(ctx context.Context) iter.Seq2[[]byte, error] {
	return j.Records(ctx, jobRecord)
}

// Handover returns the last document that SaveHandover saved under a name, or nil.
func (j *jobs) Handover(ctx context.Context, name string) ([]byte, error) {
	document, _, err := j.Record(ctx, handoverRecord, name)
	return document, err
}

// SaveHandover saves a JSON document under a name, and replaces the one before.
func (j *jobs) SaveHandover(ctx context.Context, name string, document []byte) error {
	_, err := j.exec(ctx, "saving handover "+name,
		"INSERT INTO record (kind, id, version, document) VALUES (?, ?, 1, ?) ON CONFLICT DO UPDATE SET document = excluded.document, version = version + 1",
		handoverRecord, name, document)
	return err
}

package replays

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/operation/idempotency"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/replayer"
)

// KeyAge is how long the key of a request is known.
const KeyAge = 24 * time.Hour

// keyRecord is the kind of the records of keys. They stay, as jobs do; one that is older than KeyAge is replaced.
const keyRecord = "replay_key"

// Key is the Idempotency-Key of a request for a job. Its record has the id of the job before the job
// is created, so that requests at the same time, in any process, are for one job.
type Key struct {
	Text   string // of the caller; "": the request has none
	Digest string // of the request
}

// NewKey returns the key of a request by its caller; text is the header.
func NewKey(ctx context.Context, text string, request any) Key {
	if text == "" {
		return Key{}
	}
	caller := access.FromContext(ctx)
	content, _ := json.Marshal(request) // it came from JSON
	return Key{idempotency.Digest(string(caller.Method), caller.Name, text), idempotency.Digest(string(content))}
}

// keyed is the record of a key.
type keyed struct {
	Job     string    `json:"job"` // its id
	Digest  string    `json:"digest"`
	Created time.Time `json:"created"`
}

// read returns the record of the key, which is zero if there is none that still counts. The version is of the
// record to replace.
func (k Key) read(ctx context.Context, store eventstore.RecordReader) (of keyed, version string, err error) {
	version, err = eventstore.ReadRecord(ctx, store, keyRecord, k.Text, &of)
	if err != nil || time.Since(of.Created) > KeyAge {
		return keyed{}, version, err
	}
	if of.Digest != k.Digest {
		return of, version, ErrOtherRequest()
	}
	return of, version, nil
}

// Find returns the job of the key; without an id if none was created. A job that the
// caller may not see comes from a request with other permissions.
func (k Key) Find(ctx context.Context, store eventstore.RecordReader, replays *replayer.Replayer) (replayer.Job, error) {
	if k.Text == "" {
		return replayer.Job{}, nil
	}
	of, _, err := k.read(ctx, store)
	if err != nil || of.Job == "" {
		return replayer.Job{}, err
	}
	job, err := replays.Job(ctx, of.Job)
	var none *replayer.NoJobError
	switch {
	case errors.As(err, &none): // its process creates it now, or has ended before
		return replayer.Job{}, nil
	case err == nil && !access.FromContext(ctx).Within(job.Query):
		return replayer.Job{}, ErrOtherRequest()
	}
	return job, err
}

// Create creates the job of a plan, or returns the job that another request with the key has created.
func (k Key) Create(ctx context.Context, store eventstore.RecordStore, replays *replayer.Replayer, plan replayer.Plan) (replayer.Job, error) {
	if k.Text == "" {
		return replays.Create(ctx, plan)
	}
	id, err := k.reserve(ctx, store, plan.Job.ID)
	if err != nil {
		return replayer.Job{}, err
	}
	plan.Job.ID = id
	job, err := replays.Create(ctx, plan)
	if err == nil {
		return job, nil
	}
	other, findErr := k.Find(ctx, store, replays)
	if findErr == nil && other.ID == "" {
		return job, err
	}
	return other, findErr
}

// reserve returns the id of the job of the key: the given one, unless another request was first.
func (k Key) reserve(ctx context.Context, store eventstore.RecordStore, id string) (string, error) {
	for {
		of, version, err := k.read(ctx, store)
		if err != nil || of.Job != "" {
			return of.Job, err
		}
		saved, err := eventstore.SaveRecord(ctx, store, keyRecord, k.Text, version, keyed{Job: id, Digest: k.Digest, Created: time.Now().UTC()})
		if err != nil || saved != "" {
			return id, err
		}
	}
}

// ErrOtherRequest is the response to another request with the same key.
func ErrOtherRequest() *problem.Problem {
	return &problem.Problem{
		Code: code.KeyReused, Detail: "the Idempotency-Key was used for another request, or with other permissions",
		Remedy: "Send a new key with a new request.",
	}
}

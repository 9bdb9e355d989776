package replays

import (
	"context"
	"encoding/json"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/idempotency"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/replayer"
)

// KeyAge is how long the key of a request is known.
const KeyAge = 24 * time.Hour

// Key is the Idempotency-Key of a request for a job. Jobs keep it, so that a
// repeated request finds the job after a restart and in other processes.
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

// Find returns the oldest job with the key; without an id if none exists. A job that the
// caller may not see comes from a request with other permissions.
func (k Key) Find(ctx context.Context, replays *replayer.Replayer) (found replayer.Job, err error) {
	if k.Text == "" {
		return replayer.Job{}, nil
	}
	for job, err := range replays.Jobs(ctx) {
		if storeread.EndsRead(err) {
			return replayer.Job{}, err
		}
		if err == nil && time.Since(job.Created) > KeyAge {
			break
		}
		if err == nil && job.Key == k.Text {
			found = job
		}
	}
	if found.ID != "" && (found.Digest != k.Digest || !access.FromContext(ctx).Within(found.Query)) {
		return replayer.Job{}, ErrOtherRequest()
	}
	return found, ctx.Err()
}

// Settle returns the job that runs for the key. If another process has created one at the
// same time, the older one runs, and the other one is cancelled before it has begun.
func (k Key) Settle(ctx context.Context, replays *replayer.Replayer, created replayer.Job) (replayer.Job, error) {
	oldest, err := k.Find(ctx, replays)
	if err != nil || oldest.ID == "" || oldest.ID == created.ID {
		return created, err
	}
	if _, err := replays.Cancel(ctx, created.ID, "a repeated request: see job "+oldest.ID); err != nil {
		return created, err
	}
	return oldest, nil
}

// ErrOtherRequest is the response to another request with the same key.
func ErrOtherRequest() *problem.Problem {
	return &problem.Problem{
		Code: code.KeyReused, Detail: "the Idempotency-Key was used for another request, or with other permissions",
		Remedy: "Send a new key with a new request.",
	}
}

package replays

import (
	"context"
	"encoding/json"
	"slices"
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

// Find returns the job that runs for the key; without an id if none exists. A job that the
// caller may not see comes from a request with other permissions.
func (k Key) Find(ctx context.Context, replays *replayer.Replayer) (replayer.Job, error) {
	same, err := k.jobs(ctx, replays)
	if err != nil || len(same) == 0 {
		return replayer.Job{}, err
	}
	return k.choose(ctx, same)
}

// jobs returns the jobs with the key, oldest first.
func (k Key) jobs(ctx context.Context, replays *replayer.Replayer) (same []replayer.Job, err error) {
	if k.Text == "" {
		return nil, nil
	}
	for job, err := range replays.Jobs(ctx) {
		if storeread.EndsRead(err) {
			return nil, err
		}
		if err == nil && time.Since(job.Created) > KeyAge {
			break
		}
		if err == nil && job.Key == k.Text {
			same = append(same, job)
		}
	}
	slices.Reverse(same)
	return same, ctx.Err()
}

// choose returns the one of some jobs with the key that runs: the oldest that has begun, else the
// oldest that can begin.
func (k Key) choose(ctx context.Context, same []replayer.Job) (replayer.Job, error) {
	chosen := same[0]
	for _, is := range []func(replayer.State) bool{
		func(s replayer.State) bool { return s != replayer.Planned && s != replayer.Cancelled },
		func(s replayer.State) bool { return s == replayer.Planned },
	} {
		if at := slices.IndexFunc(same, func(job replayer.Job) bool { return is(job.State) }); at >= 0 {
			chosen = same[at]
			break
		}
	}
	if chosen.Digest != k.Digest || !access.FromContext(ctx).Within(chosen.Query) {
		return chosen, ErrOtherRequest()
	}
	return chosen, nil
}

// Settle returns the job that runs for the key. If other processes have created some at the same
// time, those that do not run are cancelled before they begin: by each process that sees them, as
// a job may be stored before an older one.
func (k Key) Settle(ctx context.Context, replays *replayer.Replayer, created replayer.Job) (replayer.Job, error) {
	same, err := k.jobs(ctx, replays)
	if err != nil || len(same) == 0 {
		return created, err
	}
	chosen, refused := k.choose(ctx, same)
	for _, job := range same {
		if job.ID == chosen.ID || job.State != replayer.Planned {
			continue
		}
		if got, err := replays.Cancel(ctx, job.ID, "a repeated request: see job "+chosen.ID); err != nil && !got.Finished() {
			return created, err
		}
	}
	return chosen, refused
}

// ErrOtherRequest is the response to another request with the same key.
func ErrOtherRequest() *problem.Problem {
	return &problem.Problem{
		Code: code.KeyReused, Detail: "the Idempotency-Key was used for another request, or with other permissions",
		Remedy: "Send a new key with a new request.",
	}
}

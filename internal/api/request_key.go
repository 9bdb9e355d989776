package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/watershipmq/watership/internal/access"
	"github.com/watershipmq/watership/internal/idempotency"
	"github.com/watershipmq/watership/internal/problem"
	"github.com/watershipmq/watership/internal/storeretry"
	"github.com/watershipmq/watership/replayer"
)

// keyAge is how long the key of a request is known.
const keyAge = 24 * time.Hour

// requestKey is the Idempotency-Key of a request for a job. Jobs keep it, so that a
// repeated request finds the job after a restart and in other processes.
type requestKey struct {
	key    string // of the caller; "": the request has none
	digest string // of the request
}

func newRequestKey(ctx context.Context, key string, request any) requestKey {
	if key == "" {
		return requestKey{}
	}
	caller := access.FromContext(ctx)
	content, _ := json.Marshal(request) // it came from JSON
	return requestKey{idempotency.Digest(string(caller.Method), caller.Name, key), idempotency.Digest(string(content))}
}

// find returns the oldest job with the key; without an id if there is none.
func (k requestKey) find(ctx context.Context, replays *replayer.Replayer) (found replayer.Job, err error) {
	if k.key == "" {
		return replayer.Job{}, nil
	}
	for job, err := range replays.Jobs(ctx) {
		if storeretry.EndsRead(err) {
			return replayer.Job{}, err
		}
		if err == nil && time.Since(job.Created) > keyAge {
			break
		}
		if err == nil && job.Key == k.key {
			found = job
		}
	}
	if found.ID != "" && found.Digest != k.digest {
		return replayer.Job{}, errOtherRequest()
	}
	return found, ctx.Err()
}

// settle returns the job that runs for the key. If another process has created one at the
// same time, the older one runs, and the other one is cancelled before it has begun.
func (k requestKey) settle(ctx context.Context, replays *replayer.Replayer, created replayer.Job) (replayer.Job, error) {
	oldest, err := k.find(ctx, replays)
	if err != nil || oldest.ID == "" || oldest.ID == created.ID {
		return created, err
	}
	if _, err := replays.Cancel(ctx, created.ID, "a repeated request: see job "+oldest.ID); err != nil {
		return created, err
	}
	return oldest, nil
}

// serveOnce passes on a request unless it repeats another one of the caller, whose response
// it gets then.
func (a *API) serveOnce(w http.ResponseWriter, r *http.Request, body []byte) {
	caller := access.FromContext(r.Context())
	key := idempotency.Digest(string(caller.Method), caller.Name, r.Header.Get(idempotency.Header))
	a.responses.Serve(w, r, key, idempotency.Digest(r.URL.Path, r.URL.RawQuery, string(body)), a.mux)
}

func errOtherRequest() *problem.Problem {
	return &problem.Problem{
		Status: http.StatusUnprocessableEntity, Detail: "the Idempotency-Key was used for another request",
		Remedy: "Send a new key with a new request.",
	}
}

// Package adoptions takes in the messages of error queues that other systems filled. Each
// becomes a report on its queue, by which Watership records it as poison.
package adoptions

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
)

// Request describes an adoption: the messages of an error queue become failures.
type Request struct {
	Queue       string `json:"queue" minLength:"1" maxLength:"255" doc:"Error queue"`
	Format      string `json:"format" enum:"celery,dead-letter,kicks,laravel,masstransit,nservicebus,rebus,spring,symfony,watermill,wolverine" doc:"Format of its failures"`
	FailedQueue string `json:"failed_queue,omitempty" maxLength:"255" doc:"Queue in which the messages failed, also where they name another; default: the one that each names"`
	Limit       int    `json:"limit,omitempty" minimum:"0" doc:"Maximum number of messages; 0: those that are in the queue"`
	Expect      *int   `json:"expect,omitempty" minimum:"0" nullable:"true" doc:"Take in nothing if another number of messages is ready in the queue, up to limit, such as matched of a preview"`
	Reason      string `json:"reason,omitempty" maxLength:"1000" doc:"Why"`
}

// Service adopts by the servers of a System.
type Service struct{ System *system.System }

// Preview reads the first messages of the error queue, up to 1,000, and returns them to it.
func (s Service) Preview(ctx context.Context, r Request) (AdoptionPreview, error) {
	adopter, ready, err := s.ready(ctx, r)
	if err != nil {
		return AdoptionPreview{}, err
	}
	found, err := adopter.Look(ctx)
	return AdoptionPreview{ready, found}, err
}

// ready returns the adopter of a request and the number of messages that it finds in the queue, up to
// the limit. Another number than the request expects is a problem, and a request that expects a number
// takes in no later messages.
func (s Service) ready(ctx context.Context, r Request) (Adopter, int, error) {
	adopter, err := s.adopter(ctx, r)
	if err != nil {
		return adopter, 0, err
	}
	for wait := returnTime; ; wait -= returnTime / 10 {
		ready, err := adopter.Ready(ctx)
		if err != nil {
			return adopter, 0, queueProblem(err)
		}
		ready = min(ready, cmp.Or(r.Limit, ready))
		if err = operation.CheckNumber(r.Expect, ready, "message"); err == nil || wait <= 0 {
			if r.Expect != nil {
				adopter.Limit = ready
			}
			return adopter, ready, err
		}
		if err := backoff.Sleep(ctx, returnTime/10); err != nil {
			return adopter, ready, err
		}
	}
}

// returnTime is how long the messages of a preview may need until they are ready again.
const returnTime = 2 * time.Second

// Follow takes in the messages that are in the error queue, and each new one, until ctx ends.
func (s Service) Follow(ctx context.Context, r Request) (Result, error) {
	if err := describe(ctx, r, false); err != nil {
		return Result{}, err
	}
	adopter, _, err := s.expected(ctx, r)
	if err != nil {
		return Result{}, err
	}
	adopter.Follow = true
	return adopter.Run(ctx, func(int) {})
}

// expected is ready for an adoption that begins. One that has shown messages fails if none is left.
func (s Service) expected(ctx context.Context, r Request) (Adopter, int, error) {
	adopter, ready, err := s.ready(ctx, r)
	if err == nil && r.Expect != nil && ready == 0 {
		err = &problem.Problem{
			Code: code.Conflict, Detail: fmt.Sprintf("queue %q has no message to take in", r.Queue), Remedy: "Preview it again when it has messages.",
		}
	}
	return adopter, ready, err
}

func (s Service) adopter(ctx context.Context, r Request) (a Adopter, err error) {
	if a.Format, err = FormatNamed(r.Format); err != nil {
		return a, system.InputError{Err: err}
	}
	if a.Connection, err = s.System.Dial(ctx); err != nil {
		return a, err
	}
	a.Queue, a.Of, a.Limit, a.Topology = r.Queue, r.FailedQueue, r.Limit, s.System.Topology()
	a.Publisher, err = s.System.Publisher(ctx)
	return a, err
}

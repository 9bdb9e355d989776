// Package adoptions takes in the messages of error queues that other systems filled. Each
// becomes a report on its queue, by which Watership records it as poison.
package adoptions

import (
	"context"

	"github.com/watershipmq/watership/internal/system"
)

// Request describes an adoption: the messages of an error queue become failures.
type Request struct {
	Queue       string `json:"queue" minLength:"1" maxLength:"255" doc:"Error queue"`
	Format      string `json:"format" enum:"celery,dead-letter,kicks,masstransit,nservicebus,spring,watermill,wolverine" doc:"Format of its failures"`
	FailedQueue string `json:"failed_queue,omitempty" maxLength:"255" doc:"Queue in which the messages failed, if they do not say it"`
	Limit       int    `json:"limit,omitempty" minimum:"0" doc:"Maximum number of messages; 0: those that are in the queue"`
}

// Service adopts by the servers of a System.
type Service struct{ System *system.System }

// Preview reads the first messages of the error queue, up to 1,000, and returns them to it.
func (s Service) Preview(ctx context.Context, r Request) (Result, error) {
	adopter, err := s.adopter(ctx, r)
	if err != nil {
		return Result{}, err
	}
	return adopter.Look(ctx)
}

// Adopt takes in the messages that are in the error queue or, to follow it, each new message
// until ctx ends.
func (s Service) Adopt(ctx context.Context, r Request, follow bool) (Result, error) {
	adopter, err := s.adopter(ctx, r)
	if err != nil {
		return Result{}, err
	}
	adopter.Follow = follow
	return adopter.Run(ctx, func(int) {})
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

package adoptions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/ThreeDotsLabs/watermill"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// previewTimeout bounds the reading of the first messages of a queue.
const previewTimeout = time.Minute

// The operations on adoptions.
var (
	PreviewAdoption = operation.Declare[PreviewInput, PreviewOutput](operation.Operation{
		Method: http.MethodPost, Path: "/adoptions/preview", ID: "previewAdoption", Tag: "adoptions", Role: access.Operator, Timeout: previewTimeout,
		Summary: "Read the first messages of an error queue, and return them to it",
		Text:    "Up to 1,000 messages. A quorum queue counts a delivery of each.",
	})
	StartAdoption = operation.Declare[StartInput, AdoptionOutput](operation.Operation{
		Method: http.MethodPost, Path: "/adoptions", ID: "startAdoption", Tag: "adoptions", Role: access.Operator, Status: http.StatusAccepted, Unsigned: true,
		Summary: "Take in the failed messages of another system",
		Text: "Each message of the error queue becomes a failure of the queue in which it failed. It leaves the error queue once RabbitMQ has confirmed its report; messages of another form stay. " +
			"A caller with limits names the failed queue. The adoption runs until the messages that are in the queue at its begin are taken in.",
	})
	ListAdoptions = operation.Declare[struct{}, ListOutput](operation.Operation{
		Method: http.MethodGet, Path: "/adoptions", ID: "listAdoptions", Tag: "adoptions", Role: access.Viewer,
		Summary: "List the latest adoptions, the newest first",
	})
	GetAdoption = operation.Declare[IDInput, AdoptionOutput](operation.Operation{
		Method: http.MethodGet, Path: "/adoptions/{id}", ID: "getAdoption", Tag: "adoptions", Role: access.Viewer,
		Summary: "Get an adoption with its progress",
	})
	CancelAdoption = operation.Declare[CancelInput, AdoptionOutput](operation.Operation{
		Method: http.MethodPost, Path: "/adoptions/{id}/cancel", ID: "cancelAdoption", Tag: "adoptions", Role: access.Operator,
		Summary: "Cancel an adoption",
		Text:    "It stops within seconds. Messages that are not taken in stay in the queue.",
	})
)

// Implement adds the operations on adoptions, which a Runner runs, to a set.
func Implement(set *operation.Set, r *Runner) {
	operation.Implement(set, PreviewAdoption, r.previewAdoption)
	operation.Implement(set, StartAdoption, r.startAdoption)
	operation.Implement(set, ListAdoptions, r.listAdoptions)
	operation.Implement(set, GetAdoption, r.getAdoption)
	operation.Implement(set, CancelAdoption, r.cancelAdoption)
}

// Adoptions is a list of adoptions.
type Adoptions struct {
	Adoptions []Adoption `json:"adoptions" nullable:"false"`
}

// AdoptionRequest asks for an adoption.
type AdoptionRequest Request

// AdoptionPreview are the failures that an adoption would find first.
type AdoptionPreview struct {
	Matched int `json:"matched" doc:"Number of messages that are ready in the queue, up to limit: an adoption with it as limit and expect takes in these"`
	Result
}

// PreviewInput asks for the first failures of an adoption.
type PreviewInput struct{ Body AdoptionRequest }

// PreviewOutput has the first failures of an adoption.
type PreviewOutput struct{ Body AdoptionPreview }

// AdoptionOutput has an adoption.
type AdoptionOutput struct{ Body Adoption }

// ListOutput has the latest adoptions.
type ListOutput struct{ Body Adoptions }

// StartInput asks for an adoption.
type StartInput struct {
	operation.IdempotencyKey
	Body AdoptionRequest
}

// CancelInput names an adoption to cancel.
type CancelInput struct {
	operation.IdempotencyKey
	IDInput
}

// IDInput names an adoption.
type IDInput struct {
	ID string `path:"id" maxLength:"100" doc:"Id of the adoption"`
}

// mayUse reports whether a caller may have messages of an error queue taken in. Messages may
// name any queue in which they failed, so a caller with limits names it.
func mayUse(caller access.Identity, r Request) bool {
	return caller.MayQueue(r.Queue) && (!caller.Limited() || r.FailedQueue != "" && caller.MayQueue(r.FailedQueue))
}

// describe describes an action on an error queue, which the caller must be allowed to use.
func describe(ctx context.Context, r Request, dryRun bool) error {
	caller := access.FromContext(ctx)
	access.Describe(ctx, access.Action{Name: "adopt", Object: fmt.Sprintf("queue %s as %s", r.Queue, r.Format), Reason: r.Reason, DryRun: dryRun})
	switch {
	case !caller.MayQueue(r.Queue):
		return problem.NotAllowed(caller, "queue", r.Queue)
	case !mayUse(caller, r) && r.FailedQueue == "":
		return problem.Forbidden(caller.Name+" may not use all queues, and messages name the queues in which they failed", "Name the failed queue.")
	case !mayUse(caller, r):
		return problem.NotAllowed(caller, "queue", r.FailedQueue)
	}
	return nil
}

func (r *Runner) previewAdoption(ctx context.Context, in *PreviewInput) (*PreviewOutput, error) {
	request := Request(in.Body)
	if err := describe(ctx, request, true); err != nil {
		return nil, err
	}
	found, err := r.service.Preview(ctx, request)
	return &PreviewOutput{found}, queueProblem(err)
}

// queueProblem returns the problem of a queue that cannot be adopted.
func queueProblem(err error) error {
	var queue *QueueError
	if errors.As(err, &queue) {
		return &problem.Problem{Code: code.Conflict, Detail: queue.Reason}
	}
	return err
}

func (r *Runner) startAdoption(ctx context.Context, in *StartInput) (*AdoptionOutput, error) {
	request := Request(in.Body)
	if err := describe(ctx, request, false); err != nil {
		return nil, err
	}
	adopter, ready, err := r.service.expected(ctx, request)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	a := Adoption{
		ID: watermill.NewULID(), Operator: access.FromContext(ctx).Name, Request: request, State: Running, Total: ready,
		Result: Result{Groups: []OriginGroup{}}, Created: now, Updated: now,
	}
	if r.Runner == nil {
		a.Result, err = adopter.Run(ctx, func(int) {})
		a.end(Done, "", "")
		return &AdoptionOutput{a}, err
	}
	if a.Source, err = r.service.System.Source(ctx); err != nil {
		return nil, err
	}
	version, err := r.records.create(ctx, a)
	if err != nil {
		return nil, err
	}
	if err := r.start(ctx, adopter, a, version); err != nil {
		a.end(Failed, ByError, err.Error())
		_, saveErr := r.records.save(ctx, a, version)
		return nil, errors.Join(err, saveErr)
	}
	return &AdoptionOutput{a}, nil
}

func (r *Runner) listAdoptions(ctx context.Context, _ *struct{}) (*ListOutput, error) {
	list, err := r.records.list(ctx)
	out, caller := &ListOutput{Adoptions{[]Adoption{}}}, access.FromContext(ctx)
	for _, a := range list {
		if mayUse(caller, a.Request) {
			out.Body.Adoptions = append(out.Body.Adoptions, a.asOf(time.Now()))
		}
	}
	return out, err
}

func (r *Runner) getAdoption(ctx context.Context, in *IDInput) (*AdoptionOutput, error) {
	a, _, err := r.visible(ctx, in.ID)
	return &AdoptionOutput{a}, err
}

// visible returns an adoption if the caller may see it.
func (r *Runner) visible(ctx context.Context, id string) (Adoption, string, error) {
	a, version, err := r.records.read(ctx, id)
	if err == nil && !mayUse(access.FromContext(ctx), a.Request) {
		err = problem.NotFound("there is no adoption " + id)
	}
	return a.asOf(time.Now()), version, err
}

func (r *Runner) cancelAdoption(ctx context.Context, in *CancelInput) (*AdoptionOutput, error) {
	access.Describe(ctx, access.Action{Name: "cancel", Object: "adoption " + in.ID})
	for {
		a, version, err := r.visible(ctx, in.ID)
		switch {
		case err != nil:
			return nil, err
		case a.State == Cancelled, a.State == Running && a.CancelledBy != "":
			return &AdoptionOutput{a}, nil
		case a.State != Running:
			return nil, &problem.Problem{Code: code.HasEnded, Detail: fmt.Sprintf("adoption %s is %s: there is nothing left to cancel", a.ID, a.State)}
		}
		a.CancelledBy = access.FromContext(ctx).Name
		saved, err := r.records.save(ctx, a, version)
		if err != nil || saved != "" {
			return &AdoptionOutput{a}, err
		}
		// The run has saved its progress since.
	}
}

package adoptions

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ThreeDotsLabs/watermill"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// previewTimeout bounds the reading of the first messages of a queue.
const previewTimeout = time.Minute

// Register adds the operations on adoptions, which a Runner runs, to an API.
func Register(set *operation.Set, r *Runner) {
	op := func(method, path, id string, role access.Role, summary string) operation.Operation {
		return operation.Operation{Method: method, Path: "/adoptions" + path, ID: id, Tag: "adoptions", Role: role, Summary: summary}
	}
	preview := op(http.MethodPost, "/preview", "previewAdoption", access.Operator, "Read the first messages of an error queue, and return them to it")
	preview.Text, preview.Timeout = "Up to 1,000 messages. A quorum queue counts a delivery of each.", previewTimeout
	operation.Register(set, preview, r.previewAdoption)
	begin := op(http.MethodPost, "", "startAdoption", access.Operator, "Take in the failed messages of another system")
	begin.Status = http.StatusAccepted
	begin.Text = "Each message of the error queue becomes a failure of the queue in which it failed. It leaves the error queue once RabbitMQ has confirmed its report; messages of another form stay. " +
		"A caller with limits names the failed queue. The adoption runs until the messages that are in the queue at its begin are taken in."
	operation.Register(set, begin, r.startAdoption)
	operation.Register(set, op(http.MethodGet, "", "listAdoptions", access.Viewer, "List the latest adoptions, the newest first"), r.listAdoptions)
	operation.Register(set, op(http.MethodGet, "/{id}", "getAdoption", access.Viewer, "Get an adoption with its progress"), r.getAdoption)
	cancel := op(http.MethodPost, "/{id}/cancel", "cancelAdoption", access.Operator, "Cancel an adoption")
	cancel.Text = "It stops within seconds. Messages that are not taken in stay in the queue."
	operation.Register(set, cancel, r.cancelAdoption)
}

// Adoptions is a list of adoptions.
type Adoptions struct {
	Adoptions []Adoption `json:"adoptions" nullable:"false"`
}

// AdoptionRequest asks for an adoption.
type AdoptionRequest Request

// AdoptionPreview are the failures that an adoption would find first.
type AdoptionPreview Result

type (
	previewInput   struct{ Body AdoptionRequest }
	previewOutput  struct{ Body AdoptionPreview }
	adoptionOutput struct{ Body Adoption }
	listOutput     struct{ Body Adoptions }
	startInput     struct {
		operation.IdempotencyKey
		Body AdoptionRequest
	}
	cancelInput struct {
		operation.IdempotencyKey
		IDInput
	}
)

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
func describe(ctx context.Context, action string, r Request) error {
	caller := access.FromContext(ctx)
	access.Describe(ctx, access.Action{Name: action, Object: fmt.Sprintf("queue %s as %s", r.Queue, r.Format)})
	switch {
	case !caller.MayQueue(r.Queue):
		return problem.Forbidden(caller.Name+" may not use the queue "+r.Queue, "Ask for a token for it.")
	case !mayUse(caller, r) && r.FailedQueue == "":
		return problem.Forbidden(caller.Name+" may not use all queues, and messages name the queues in which they failed", "Name the failed queue.")
	case !mayUse(caller, r):
		return problem.Forbidden(caller.Name+" may not use the queue "+r.FailedQueue, "Ask for a token for it.")
	}
	return nil
}

func (r *Runner) previewAdoption(ctx context.Context, in *previewInput) (*previewOutput, error) {
	request := Request(in.Body)
	if err := describe(ctx, "adopt (dry run)", request); err != nil {
		return nil, err
	}
	found, err := r.service.Preview(ctx, request)
	return &previewOutput{AdoptionPreview(found)}, queueProblem(err)
}

// queueProblem returns the problem of a queue that cannot be adopted.
func queueProblem(err error) error {
	var queue *QueueError
	if errors.As(err, &queue) {
		return &problem.Problem{Status: http.StatusConflict, Detail: queue.Reason}
	}
	return err
}

func (r *Runner) startAdoption(ctx context.Context, in *startInput) (*adoptionOutput, error) {
	request := Request(in.Body)
	if err := describe(ctx, "adopt", request); err != nil {
		return nil, err
	}
	adopter, err := r.service.adopter(ctx, request)
	if err != nil {
		return nil, err
	}
	ready, err := adopter.Ready(ctx)
	if err != nil {
		return nil, queueProblem(err)
	}
	if request.Limit > 0 {
		ready = min(ready, request.Limit)
	}
	source, err := r.service.System.Source(ctx)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	a := Adoption{
		ID: watermill.NewULID(), Source: source, Operator: access.FromContext(ctx).Name, Request: request, State: Running, Total: ready,
		Result: Result{Groups: []OriginGroup{}}, Created: now, Updated: now,
	}
	version, err := r.records.create(ctx, a)
	if err != nil {
		return nil, err
	}
	if err := r.start(ctx, start{adopter: adopter, adoption: a, version: version}); err != nil {
		a.end(Failed, err.Error())
		_, saveErr := r.records.save(ctx, a, version)
		return nil, errors.Join(err, saveErr)
	}
	return &adoptionOutput{a}, nil
}

func (r *Runner) listAdoptions(ctx context.Context, _ *struct{}) (*listOutput, error) {
	list, err := r.records.list(ctx)
	out, caller := &listOutput{Adoptions{[]Adoption{}}}, access.FromContext(ctx)
	for _, a := range list {
		if mayUse(caller, a.Request) {
			out.Body.Adoptions = append(out.Body.Adoptions, a.asOf(time.Now()))
		}
	}
	return out, err
}

func (r *Runner) getAdoption(ctx context.Context, in *IDInput) (*adoptionOutput, error) {
	a, _, err := r.visible(ctx, in.ID)
	return &adoptionOutput{a}, err
}

// visible returns an adoption if the caller may see it.
func (r *Runner) visible(ctx context.Context, id string) (Adoption, string, error) {
	a, version, err := r.records.read(ctx, id)
	if err == nil && !mayUse(access.FromContext(ctx), a.Request) {
		err = problem.NotFound("there is no adoption " + id)
	}
	return a.asOf(time.Now()), version, err
}

func (r *Runner) cancelAdoption(ctx context.Context, in *cancelInput) (*adoptionOutput, error) {
	access.Describe(ctx, access.Action{Name: "cancel", Object: "adoption " + in.ID})
	for {
		a, version, err := r.visible(ctx, in.ID)
		switch {
		case err != nil:
			return nil, err
		case a.State == Cancelled, a.State == Running && a.CancelledBy != "":
			return &adoptionOutput{a}, nil
		case a.State != Running:
			return nil, &problem.Problem{Status: http.StatusConflict, Detail: fmt.Sprintf("adoption %s is %s: there is nothing left to cancel", a.ID, a.State)}
		}
		a.CancelledBy = access.FromContext(ctx).Name
		saved, err := r.records.save(ctx, a, version)
		if err != nil || saved != "" {
			return &adoptionOutput{a}, err
		}
		// The run has saved its progress since.
	}
}

package messages

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/topology/role"
)

// ExplainFailure declares the operation.
var ExplainFailure = operation.Declare[ExplainInput, ExplainOutput](operation.Operation{
	Method: http.MethodGet, Path: "/explain", ID: "explainFailure", Tag: "messages", Role: access.Viewer,
	Summary: "Explain the retries of a message or of an error",
	Text:    "The class of the error, the rule that chooses it, the delay, and the attempts that would follow by the policies of the server.",
})

// ExplainInput is the input of ExplainFailure.
type ExplainInput struct {
	ID      string   `query:"id" maxLength:"1024" doc:"Message id, fingerprint, event id, or the id that a message got at its first failure; none: the error counts"`
	Queue   string   `query:"queue" maxLength:"255" doc:"Queue of the failure; with an id, none is the queue that failed last"`
	Type    string   `query:"error_type" maxLength:"1000" doc:"Type of an error"`
	Text    string   `query:"error" maxLength:"8192" doc:"Text of an error"`
	Class   string   `query:"class" maxLength:"100" doc:"Class that the error names"`
	Attempt int      `query:"attempt" minimum:"0" maximum:"10000" doc:"Attempt that fails with the error; none: the first"`
	Headers []string `query:"header,explode" maxItems:"100" doc:"Headers of the message, as NAME=VALUE"`
}

// ExplainOutput is the output of ExplainFailure.
type ExplainOutput struct{ Body Explanations }

// Explanations explain the messages with an id, or an error.
type Explanations struct {
	Explanations []Explanation `json:"explanations" nullable:"false"`
}

func (o operations) explain(ctx context.Context, in *ExplainInput) (*ExplainOutput, error) {
	request := Request{
		ID: in.ID, Queue: in.Queue, Error: Error{Type: in.Type, Text: in.Text}, Class: in.Class, Attempt: in.Attempt, Headers: in.Headers,
	}
	if err := request.Check(); err != nil {
		return nil, problem.BadRequest(err.Error(), "")
	}
	if caller := access.FromContext(ctx); in.Queue != "" && !caller.MayQueue(in.Queue) {
		return nil, problem.NotAllowed(caller, "queue", in.Queue)
	}
	list, err := Of(o.handlers()).Explain(ctx, request, o.livesOf, time.Now())
	var none *NoFailureError
	if errors.As(err, &none) {
		return nil, problem.NotFound(err.Error())
	}
	addProcesses(ctx, o.System, list)
	return &ExplainOutput{Explanations{append([]Explanation{}, list...)}}, err
}

// addProcesses adds to explanations without a route the process that handles the queue, by another
// configuration. Without the management API the process is not known.
func addProcesses(ctx context.Context, sys *system.System, list []Explanation) {
	if !slices.ContainsFunc(list, func(ex Explanation) bool { return !ex.Route }) {
		return
	}
	management, err := sys.Management()
	if err != nil {
		return
	}
	consumers, _ := management.Consumers(ctx, sys.VHost())
	for i := range list {
		for _, consumer := range consumers {
			c, ours := role.ParseTag(consumer.Tag)
			if ours && c.Role == role.Routes && consumer.Queue.Name == list[i].Queue && !list[i].Route {
				list[i].Process = c.Process
			}
		}
	}
}

// livesOf finds the messages with an id that the caller may see.
func (o operations) livesOf(ctx context.Context, id string) ([]Life, error) {
	store, err := eventfilter.Visible(ctx, o.System)
	if err != nil {
		return nil, err
	}
	found, err := history.Find(ctx, store, id)
	if err != nil {
		return nil, err
	}
	var lives []Life
	for _, life := range found.List {
		whole, err := life.Whole(ctx, store)
		if err != nil {
			return nil, err
		}
		lives = append(lives, Life{Event: whole, Events: life.Events})
	}
	return lives, nil
}

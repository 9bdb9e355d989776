package messages

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/operation/sse"
)

// ValidateEvents declares the operation.
var ValidateEvents = operation.Declare[ValidateInput, huma.StreamResponse](operation.Operation{
	Method: http.MethodGet, Path: "/events/validate", ID: "validateEvents", Tag: "events", Role: access.Viewer, Stream: true, Reads: true,
	Summary: "Check the bodies of messages with the schema of a route",
	Text: "One line for each message that does not fit, with the member failure, and a last line with the member summary; others are empty. " +
		"Without the last line the response was cut off. Equal messages are checked once.",
	Responses: sse.Responses(ndjson, "One object per line"),
})

// validateSilence is the time after which a client gets an empty object.
const validateSilence = 10 * time.Second

// ValidateInput is the input of ValidateEvents.
type ValidateInput struct {
	eventfilter.QueryFilter
	Queue string `query:"queue" required:"true" minLength:"1" maxLength:"255" doc:"Queue of the route, whose schema is read anew"`
	Limit int    `query:"limit" minimum:"0" doc:"Most messages to check; 0: all"`
}

// Validation is a line of the response.
type Validation struct {
	Failure *InvalidMessage `json:"failure,omitempty"`
	Summary *Summary        `json:"summary,omitempty"`
}

func (o operations) validateEvents(ctx context.Context, in *ValidateInput) (*huma.StreamResponse, error) {
	if caller := access.FromContext(ctx); !caller.MayQueue(in.Queue) {
		return nil, problem.NotAllowed(caller, "queue", in.Queue)
	}
	sel, err := in.Selection(ctx, o.System)
	if err != nil {
		return nil, err
	}
	if err := access.ReadBodies(ctx, in.Query); err != nil { // the result says something about the body
		return nil, err
	}
	schema, err := RouteSchema(o.System, in.Queue)
	if err != nil {
		return nil, err
	}
	return sse.Respond(ndjson, sse.WriteTimeout, func(ctx context.Context, to sse.Stream) error {
		lines, written := json.NewEncoder(to), time.Now()
		write := func(line Validation) error {
			written = time.Now()
			if err := lines.Encode(line); err != nil {
				return err
			}
			return to.Flush()
		}
		cfg := ValidationConfig{Schema: schema, Limit: in.Limit, Checked: func() error {
			if time.Since(written) < validateSilence {
				return nil
			}
			return write(Validation{})
		}}
		summary, err := Stored(ctx, o.System, cfg, sel, func(f InvalidMessage) error { return write(Validation{Failure: &f}) })
		if err != nil {
			return err
		}
		return write(Validation{Summary: &summary})
	}), nil
}

package messages

import (
	"context"
	"errors"
	"net/http"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline/bodyschema"
	"github.com/watershipmq/watership/schemas"
)

// ValidateBody declares the operation.
var ValidateBody = operation.Declare[ValidateBodyInput, ValidateBodyOutput](operation.Operation{
	Method: http.MethodPost, Path: "/events/validate/body", ID: "validateBody", Tag: "events", Role: access.Viewer, MaxBody: maxBatchBody,
	Summary: "Check a body with the schema of a route", Text: "Nothing is sent or stored.",
})

// ValidateBodyInput has a body.
type ValidateBodyInput struct {
	Body struct {
		Queue           string `json:"queue" minLength:"1" maxLength:"255" doc:"Queue of the route, whose schema is read anew"`
		ContentType     string `json:"content_type,omitempty" maxLength:"255" doc:"With the charset of the body"`
		ContentEncoding string `json:"content_encoding,omitempty" maxLength:"255" doc:"The body is compressed, such as gzip"`
		Body            []byte `json:"body,omitempty" doc:"In base64; none: an empty body"`
	}
}

// ToValidate returns the input for the body of a message to a queue.
func ToValidate(queue string, e schemas.Envelope) ValidateBodyInput {
	var in ValidateBodyInput
	in.Body.Queue, in.Body.Body = queue, e.Body
	in.Body.ContentType, in.Body.ContentEncoding = e.Properties.ContentType, e.Properties.ContentEncoding
	return in
}

// ValidateBodyOutput has the result.
type ValidateBodyOutput struct{ Body BodyValidation }

// BodyValidation says whether a body fits the schema of a route.
type BodyValidation struct {
	Schema string `json:"schema,omitempty" doc:"Name of the file of the schema; none: the route has no schema, or this server has no such route"`
	Error  string `json:"error,omitempty" doc:"The first faults, each with its path and its rule; none: the body fits"`
}

// bodyCheck is the function of ValidateBody.
type bodyCheck struct{ system *system.System }

func (c bodyCheck) validate(ctx context.Context, in *ValidateBodyInput) (*ValidateBodyOutput, error) {
	if caller := access.FromContext(ctx); !caller.MayQueue(in.Body.Queue) {
		return nil, problem.NotAllowed(caller, "queue", in.Body.Queue)
	}
	out := &ValidateBodyOutput{}
	if !hasSchema(c.system.Settings().Routes, in.Body.Queue) {
		return out, nil
	}
	schema, err := RouteSchema(c.system, in.Body.Queue)
	if err != nil {
		return nil, err
	}
	out.Body.Schema = schema.Name()
	body := in.Body.Body
	message := schemas.Envelope{Properties: schemas.Properties{ContentType: in.Body.ContentType, ContentEncoding: in.Body.ContentEncoding}, Body: body}
	if text, isText := message.BodyText(); isText {
		body = text
	}
	var unfit *bodyschema.Error
	if errors.As(schema.Check(body), &unfit) {
		out.Body.Error = unfit.List()
	}
	return out, nil
}

// Package problem has the error responses of the HTTP API, as RFC 9457 describes them.
package problem

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/subscription"
)

// Problem is the body of every error response, as RFC 9457 describes it.
type Problem struct {
	Type   string    `json:"type,omitempty" doc:"about:blank, which is the default: code says the kind of the problem"`
	Title  string    `json:"title" doc:"The text of the status"`
	Status int       `json:"status"`
	Code   code.Code `json:"code"`
	Detail string    `json:"detail" doc:"What is wrong"`
	Remedy string    `json:"remedy,omitempty" doc:"What to do"`

	Position *Position `json:"position,omitempty" doc:"Place of a mistake in a query"`
	Errors   []Mistake `json:"errors,omitempty" nullable:"false" doc:"Mistakes in the parameters or the body of the request"`
	Fields   []string  `json:"fields,omitempty" nullable:"false" doc:"Names of the parameters or members that detail is about"`

	Done int `json:"done,omitempty" doc:"Number of those that were changed or published before the problem"`

	// RetryAfter is a header of the response; 0: none.
	RetryAfter time.Duration `json:"-"`
}

// Position is a place in a query.
type Position struct {
	Query  string `json:"query"`
	Offset int    `json:"offset" doc:"In bytes of UTF-8"`
}

// newPosition returns nil for a name that is in no query.
func newPosition(query string, offset int) *Position {
	if query == "" && offset == 0 {
		return nil
	}
	return &Position{query, offset}
}

// Invalid is the problem of a request with a value that does not fit.
func Invalid(location, message string) *Problem {
	return &Problem{Code: code.InvalidValue, Detail: "validation failed", Errors: []Mistake{{location, message}}}
}

// Mistake is a value of a request that does not fit its schema.
type Mistake struct {
	Location string `json:"location,omitempty" doc:"Such as query.limit or body.reason"`
	Message  string `json:"message"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// Text returns the detail, the mistakes and a remedy, each on its own line.
func (p *Problem) Text(remedy string) string {
	text := p.Detail
	for _, mistake := range p.Errors {
		text += fmt.Sprintf("\n%s: %s", mistake.Location, mistake.Message)
	}
	if remedy != "" {
		text += "\n" + remedy
	}
	return text
}

// IsMistake reports whether the request was a mistake of its sender.
func (p *Problem) IsMistake() bool {
	return p.GetStatus() == http.StatusBadRequest || p.GetStatus() == http.StatusUnprocessableEntity
}

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int {
	if p.Status != 0 {
		return p.Status
	}
	return p.Code.Status()
}

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header {
	headers := http.Header{}
	if p.RetryAfter > 0 {
		headers.Set("Retry-After", strconv.Itoa(int(p.RetryAfter.Seconds())))
	}
	return headers
}

// Complete sets the members that follow from the code; one without a code has the general one of
// its status.
func (p Problem) Complete() *Problem {
	p.Status, p.Code = p.GetStatus(), cmp.Or(p.Code, code.Of(p.Status))
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	return &p
}

// Write writes a problem as a response.
func Write(w http.ResponseWriter, p Problem) {
	maps.Copy(w.Header(), p.GetHeaders())
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.GetStatus())
	_ = json.NewEncoder(w).Encode(p.Complete())
}

// RetryLater is the pause before a request to a server that is unavailable.
const RetryLater = 5 * time.Second

// New returns the problem of an error.
func New(ctx context.Context, err error) *Problem {
	var part *UnfinishedError
	if errors.As(err, &part) {
		p := *New(ctx, part.Err)
		p.Done, p.Detail = part.Done, part.text(p.Detail)
		return &p
	}
	var problem *Problem
	if errors.As(err, &problem) {
		return problem.Complete()
	}
	var own interface {
		error
		Problem() *Problem
	}
	if errors.As(err, &own) {
		return own.Problem().Complete()
	}
	p := Problem{Code: codeOf(ctx, err), Detail: err.Error()}
	var refused *access.Error
	var bodies *access.BodySearchError
	var syntax *kql.SyntaxError
	var field *kql.FieldError
	var mistake *system.FieldError
	var store *eventstore.Error
	switch {
	case errors.As(err, &refused):
		p.Remedy = refused.Remedy
	case errors.As(err, &bodies):
		p.Remedy = bodies.Remedy()
	case errors.As(err, &syntax):
		p.Detail, p.Remedy = fmt.Sprintf("found %s, expected %s", syntax.Found, syntax.Expected), syntax.Hint
		p.Position = newPosition(syntax.Query, syntax.Offset)
	case errors.As(err, &field):
		p.Detail, p.Remedy = field.Problem, correction(field)
		p.Position = newPosition(field.At.Query, field.At.Offset)
	case errors.As(err, &mistake):
		for _, name := range mistake.Fields {
			p.Fields = append(p.Fields, string(name))
		}
	case is[*replayer.NoJobError](err):
		p.Remedy = "GET /replays lists them."
	case is[*replayer.BusyError](err):
		p.Remedy = "Wait until it ends, or cancel the job."
	case is[*replayer.TakenOverError](err):
		p.Remedy = "Look at the job again."
	case p.Code == code.Erased:
		p.Remedy = "Nothing brings it back: the key of its subject was destroyed."
	case is[*privacy.RedactedError](err) && p.Code == code.Conflict:
		p.Remedy = "Send it by a process that has the keys of its original (redact.original_keys_file)."
	case is[*subscription.NotFoundError](err):
		p.Remedy = "GET /subscriptions lists them."
	case p.Code == code.RoutesUnchecked:
		p.Remedy, p.RetryAfter = "Try again, or send unchecked_routes; see doctor.", RetryLater
	case p.Code == code.StoreUnavailable:
		p.Remedy, p.RetryAfter = "Wait until the store answers; see doctor.", RetryLater
		if errors.Is(ctx.Err(), context.DeadlineExceeded) { // the store may have been at work until then
			p.Remedy = "Narrow the query or its period, or wait until the store answers; see doctor."
		}
		if errors.As(err, &store) {
			p.RetryAfter = max(store.RetryAfter, RetryLater)
		}
	case p.Code == code.StoreRefused:
		p.Remedy = "Give the login of store.url the rights that docs/permissions.md lists; see doctor."
	case p.Code == code.InvalidQuery: // the store refuses it
		p.Remedy = "Change the query."
	case p.Code == code.BrokerUnavailable:
		p.Remedy, p.RetryAfter = "Wait until RabbitMQ can be reached; see doctor.", RetryLater
	case p.Code == code.QueueFull:
		p.Remedy, p.RetryAfter = "Wait until the queue has room; see doctor.", RetryLater
	case p.Code == code.BrokerRefused:
		p.Remedy = "Give the login of amqp.url the permissions that docs/permissions.md lists; see doctor."
	case p.Code == code.TimedOut:
		p.Detail, p.Remedy = context.Cause(ctx).Error(), "Narrow the query or its period, or see doctor."
	}
	return p.Complete()
}

// UnfinishedError is the error of an action on many that has changed some of them.
type UnfinishedError struct {
	Done int
	Unit string // the word for one of them
	Err  error
}

// Error implements error.
func (e *UnfinishedError) Error() string { return e.text(e.Err.Error()) }

func (e *UnfinishedError) text(problem string) string {
	return fmt.Sprintf("%s before: %s", wording.PluralVerb(e.Done, e.Unit, "was changed", "were changed"), problem)
}

// Unwrap implements errors.Unwrap.
func (e *UnfinishedError) Unwrap() error { return e.Err }

func correction(err *kql.FieldError) string {
	if len(err.Near) > 0 {
		return "Did you mean " + strings.Join(err.Near, ", ") + "?"
	}
	return err.Hint
}

// BadRequest returns the problem of a request that cannot be meant.
func BadRequest(detail, remedy string) *Problem {
	return &Problem{Code: code.InvalidRequest, Detail: detail, Remedy: remedy}
}

// Forbidden returns the problem of a request that the caller may not send.
func Forbidden(detail, remedy string) *Problem {
	return &Problem{Code: code.Forbidden, Detail: detail, Remedy: remedy}
}

// NotAllowed returns the problem of a queue or an exchange that the caller may not use.
func NotAllowed(caller access.Identity, kind, name string) *Problem {
	return Forbidden(fmt.Sprintf("%s may not use the %s %s", caller.Name, kind, name), "Ask for a token for it.")
}

// NotFound returns the problem of a request for something that does not exist.
func NotFound(detail string) *Problem {
	return &Problem{Code: code.NotFound, Detail: detail}
}

// Package problem has the error responses of the HTTP API, as RFC 9457 describes them.
package problem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/subscription"
)

// Problem is the body of every error response, as RFC 9457 describes it.
type Problem struct {
	Type   string `json:"type,omitempty" doc:"about:blank, which is the default: the status says the kind of the problem"`
	Title  string `json:"title" doc:"The text of the status"`
	Status int    `json:"status"`
	Detail string `json:"detail" doc:"What is wrong"`
	Remedy string `json:"remedy,omitempty" doc:"What to do"`

	Position *Position `json:"position,omitempty" doc:"Place of a mistake in a query"`
	Errors   []Mistake `json:"errors,omitempty" nullable:"false" doc:"Mistakes in the parameters or the body of the request"`

	Published int `json:"published,omitempty" doc:"Messages that were published before the problem"`

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
	return &Problem{Status: http.StatusUnprocessableEntity, Detail: "validation failed", Errors: []Mistake{{location, message}}}
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
	return p.Status == http.StatusBadRequest || p.Status == http.StatusUnprocessableEntity
}

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

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

// Complete sets the members that follow from the status.
func (p Problem) Complete() *Problem {
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	return &p
}

// Write writes a problem as a response.
func Write(w http.ResponseWriter, p Problem) {
	maps.Copy(w.Header(), p.GetHeaders())
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p.Complete())
}

// RetryLater is the pause before a request to a server that is unavailable.
const RetryLater = 5 * time.Second

// New returns the problem of an error.
func New(ctx context.Context, err error) *Problem {
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
	p := Problem{Status: http.StatusInternalServerError, Detail: err.Error()}
	var refused *access.Error
	var bodies *access.BodySearchError
	var syntax *kql.SyntaxError
	var field *kql.FieldError
	var mistake system.InputError
	var store *eventstore.Error
	var noJob *replayer.NoJobError
	var noMessage *history.NotFoundError
	var noStream *history.NoStreamError
	var broker *system.BrokerError
	var noSubscription *subscription.NotFoundError
	var unchecked *replayer.UncheckedError
	switch {
	case errors.As(err, &refused):
		p.Status, p.Remedy = refused.Status, refused.Remedy
	case errors.As(err, &bodies):
		p.Status, p.Remedy = http.StatusForbidden, bodies.Remedy()
	case errors.As(err, &syntax):
		p.Status, p.Detail, p.Remedy = http.StatusBadRequest, fmt.Sprintf("found %s, expected %s", syntax.Found, syntax.Expected), syntax.Hint
		p.Position = newPosition(syntax.Query, syntax.Offset)
	case errors.As(err, &field):
		p.Status, p.Detail, p.Remedy = http.StatusBadRequest, field.Problem, correction(field)
		p.Position = newPosition(field.At.Query, field.At.Offset)
	case errors.As(err, &mistake):
		p.Status = http.StatusBadRequest
	case errors.As(err, &noJob), errors.As(err, &noMessage), errors.As(err, &noStream), errors.As(err, &noSubscription):
		p.Status = http.StatusNotFound
	case errors.As(err, &unchecked):
		p.Status, p.Remedy, p.RetryAfter = http.StatusServiceUnavailable, "Try again, or send unchecked_routes; see doctor.", RetryLater
	case isConflict(err):
		p.Status = http.StatusConflict
	case errors.As(err, &store):
		p.Status, p.Remedy, p.RetryAfter = storeStatus(store)
	case errors.As(err, &broker), errors.Is(err, rabbit.ErrNoConnection):
		p.Status, p.Remedy, p.RetryAfter = http.StatusServiceUnavailable, "Wait until RabbitMQ can be reached; see doctor.", RetryLater
	case ctx.Err() != nil:
		p.Status, p.Detail = http.StatusGatewayTimeout, context.Cause(ctx).Error()
		p.Remedy = "Narrow the query or its period, or see doctor."
	}
	return p.Complete()
}

func correction(err *kql.FieldError) string {
	if len(err.Near) > 0 {
		return "Did you mean " + strings.Join(err.Near, ", ") + "?"
	}
	return err.Hint
}

func isConflict(err error) bool {
	var busy *replayer.BusyError
	var taken *replayer.TakenOverError
	var unreported *replayer.NoReportsError
	var streamless *replayer.NoStreamsError
	var stuck *transform.LimitError
	return errors.As(err, &busy) || errors.As(err, &taken) || errors.As(err, &unreported) || errors.As(err, &streamless) || errors.As(err, &stuck)
}

func storeStatus(err *eventstore.Error) (status int, remedy string, retryAfter time.Duration) {
	switch err.Kind {
	case eventstore.Unavailable, eventstore.Overloaded:
		return http.StatusServiceUnavailable, "Wait until the store answers; see doctor.", max(err.RetryAfter, RetryLater)
	case eventstore.Unauthorized:
		return http.StatusBadGateway, "Give the login of store.url the rights that docs/security.md lists; see doctor.", 0
	}
	return http.StatusBadRequest, "Change the query.", 0
}

// BadRequest returns the problem of a request that cannot be meant.
func BadRequest(detail, remedy string) *Problem {
	return &Problem{Status: http.StatusBadRequest, Detail: detail, Remedy: remedy}
}

// Forbidden returns the problem of a request that the caller may not send.
func Forbidden(detail, remedy string) *Problem {
	return &Problem{Status: http.StatusForbidden, Detail: detail, Remedy: remedy}
}

// NotAllowed returns the problem of a queue or an exchange that the caller may not use.
func NotAllowed(caller access.Identity, kind, name string) *Problem {
	return Forbidden(fmt.Sprintf("%s may not use the %s %s", caller.Name, kind, name), "Ask for a token for it.")
}

// NotFound returns the problem of a request for something that does not exist.
func NotFound(detail string) *Problem {
	return &Problem{Status: http.StatusNotFound, Detail: detail}
}

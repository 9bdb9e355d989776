package problem_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/history"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/subscription"
)

func TestEachKindOfErrorHasItsCode(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		code   code.Code
		status int
	}{
		"a problem":                {problem.NotFound("no group"), code.NotFound, http.StatusNotFound},
		"a problem of a status":    {&problem.Problem{Status: http.StatusNotAcceptable}, code.InvalidRequest, http.StatusNotAcceptable},
		"a caller who may not":     {&access.Error{Code: code.Forbidden}, code.Forbidden, http.StatusForbidden},
		"a caller who asks often":  {&access.Error{Code: code.RateLimited}, code.RateLimited, http.StatusTooManyRequests},
		"bodies":                   {&access.BodySearchError{}, code.Forbidden, http.StatusForbidden},
		"a mistake of the request": {system.InputError{Err: errors.New("no such unit")}, code.InvalidRequest, http.StatusBadRequest},
		"a query":                  {&kql.SyntaxError{Found: "end", Expected: "a value"}, code.InvalidQuery, http.StatusBadRequest},
		"a field":                  {&kql.FieldError{Problem: "no such field"}, code.InvalidField, http.StatusBadRequest},
		"a query for the store":    {&eventstore.Error{Kind: eventstore.BadRequest}, code.InvalidQuery, http.StatusBadRequest},
		"a job":                    {&replayer.NoJobError{}, code.NotFound, http.StatusNotFound},
		"a subscription":           {&subscription.NotFoundError{}, code.NotFound, http.StatusNotFound},
		"a message":                {&history.NotFoundError{}, code.NotFound, http.StatusNotFound},
		"a job that runs":          {&replayer.BusyError{}, code.IsRunning, http.StatusConflict},
		"a queue without reports":  {&replayer.NoReportsError{}, code.Conflict, http.StatusConflict},
		"routes":                   {&replayer.UncheckedError{Err: errors.New("refused")}, code.RoutesUnchecked, http.StatusServiceUnavailable},
		"a store that is away":     {&eventstore.Error{Kind: eventstore.Unavailable}, code.StoreUnavailable, http.StatusServiceUnavailable},
		"a store with much to do":  {&eventstore.Error{Kind: eventstore.Overloaded}, code.StoreUnavailable, http.StatusServiceUnavailable},
		"a store without rights":   {&eventstore.Error{Kind: eventstore.Unauthorized}, code.StoreRefused, http.StatusBadGateway},
		"a broker that is away":    {&system.BrokerError{Err: errors.New("refused")}, code.BrokerUnavailable, http.StatusServiceUnavailable},
		"a lost connection":        {fmt.Errorf("%w: no answer within 20s", rabbit.ErrNoConnection), code.BrokerUnavailable, http.StatusServiceUnavailable},
		"a full queue":             {&rabbit.NackedError{}, code.QueueFull, http.StatusServiceUnavailable},
		"a login without rights":   {&rabbit.RefusedError{Code: amqp.AccessRefused}, code.BrokerRefused, http.StatusBadGateway},
		"a change of some":         {&problem.UnfinishedError{Done: 2, Unit: "event", Err: problem.NotFound("no group")}, code.NotFound, http.StatusNotFound},
		"any other":                {errors.New("a disk is full"), code.Internal, http.StatusInternalServerError},
	} {
		got := problem.New(t.Context(), fmt.Errorf("doing it: %w", test.err))
		if got.Code != test.code || got.Status != test.status || got.Title != http.StatusText(test.status) {
			t.Errorf("%s: %+v, want the code %s and the status %d", name, got, test.code, test.status)
		}
	}
}

func TestAMistakeHasTheNamesOfItsFields(t *testing.T) {
	err := system.InputError{Err: &system.FieldError{Fields: []system.Field{system.SinceField, system.FromField}, Problem: "cannot be combined"}}
	if got := problem.New(t.Context(), err); got.Code != code.InvalidRequest || !slices.Equal(got.Fields, []string{"since", "from"}) {
		t.Errorf("%+v", got)
	}
	if got := problem.Invalid("body.reason", "expected a reason").Complete(); got.Code != code.InvalidValue || got.Errors[0].Location != "body.reason" {
		t.Errorf("%+v", got)
	}
}

func TestARequestThatTookTooLong(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 0, errors.New("no answer within 1m"))
	defer cancel()
	if got := problem.New(ctx, ctx.Err()); got.Code != code.TimedOut || got.Status != http.StatusGatewayTimeout || got.Detail != "no answer within 1m" {
		t.Errorf("%+v", got)
	}
}

// A store that was at work until the end of the request may be well, and the query too large for it.
func TestAQueryThatTookTooLong(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), -1)
	defer cancel()
	away := &eventstore.Error{Kind: eventstore.Unavailable, Err: context.DeadlineExceeded}
	for name, test := range map[string]struct {
		ctx    context.Context
		remedy string
	}{
		"in time":  {t.Context(), "Wait until the store answers; see doctor."},
		"too late": {ctx, "Narrow the query or its period, or wait until the store answers; see doctor."},
	} {
		if p := problem.New(test.ctx, away); p.Code != code.StoreUnavailable || p.Remedy != test.remedy {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestAMistakeInAQueryHasItsPlace(t *testing.T) {
	got := problem.New(t.Context(), &kql.SyntaxError{Query: "queue:", Offset: 6, Found: "end", Expected: "a value"})
	if got.Detail != "found end, expected a value" || got.Position == nil || *got.Position != (problem.Position{Query: "queue:", Offset: 6}) {
		t.Errorf("%+v", got)
	}
}

func TestFieldsWithSimilarNamesAreOffered(t *testing.T) {
	if got := problem.New(t.Context(), &kql.FieldError{Near: []string{"queue", "query"}}); got.Remedy != "Did you mean queue, query?" {
		t.Errorf("%+v", got)
	}
	if got := problem.New(t.Context(), &kql.FieldError{Hint: "It is not stored."}); got.Remedy != "It is not stored." {
		t.Errorf("%+v", got)
	}
}

func TestAProblemIsWrittenAsJSON(t *testing.T) {
	w := httptest.NewRecorder()
	problem.Write(w, problem.Problem{Code: code.Unavailable, Detail: "no answer", RetryAfter: 7 * time.Second})
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got["code"] != "unavailable" || got["type"] != "about:blank" || got["title"] != "Service Unavailable" || got["detail"] != "no answer" {
		t.Errorf("%v", got)
	}
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "7" || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}

func TestATextOfTheUserComesBackUnchanged(t *testing.T) {
	const given = "--dsl x --since --from --to y --unchecked-routes"
	got := problem.New(t.Context(), system.InputError{Err: fmt.Errorf("no field %q", given)})
	if want := fmt.Sprintf("no field %q", given); got.Detail != want {
		t.Errorf("got %s\nwant %s", got.Detail, want)
	}
}

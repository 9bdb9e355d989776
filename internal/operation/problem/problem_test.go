package problem_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/subscription"
)

func TestStatusesOfErrors(t *testing.T) {
	for name, test := range map[string]struct {
		err    error
		status int
	}{
		"a problem":                {problem.NotFound("no group"), http.StatusNotFound},
		"a caller who may not":     {&access.Error{Status: http.StatusForbidden}, http.StatusForbidden},
		"a mistake of the request": {system.InputError{Err: errors.New("no such unit")}, http.StatusBadRequest},
		"a query":                  {&kql.SyntaxError{Found: "end", Expected: "a value"}, http.StatusBadRequest},
		"a field":                  {&kql.FieldError{Problem: "no such field"}, http.StatusBadRequest},
		"a job":                    {&replayer.NoJobError{}, http.StatusNotFound},
		"a subscription":           {&subscription.NotFoundError{}, http.StatusNotFound},
		"a job that runs":          {&replayer.BusyError{}, http.StatusConflict},
		"a store that is away":     {&eventstore.Error{Kind: eventstore.Unavailable}, http.StatusServiceUnavailable},
		"a store without rights":   {&eventstore.Error{Kind: eventstore.Unauthorized}, http.StatusBadGateway},
		"a broker that is away":    {&system.BrokerError{Err: errors.New("refused")}, http.StatusServiceUnavailable},
		"a lost connection":        {fmt.Errorf("%w: no answer within 20s", rabbit.ErrNoConnection), http.StatusServiceUnavailable},
		"any other":                {errors.New("a disk is full"), http.StatusInternalServerError},
	} {
		got := problem.New(t.Context(), fmt.Errorf("doing it: %w", test.err))
		if got.Status != test.status || got.Title != http.StatusText(test.status) {
			t.Errorf("%s: %+v, want the status %d", name, got, test.status)
		}
	}
}

func TestARequestThatTookTooLong(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 0, errors.New("no answer within 1m"))
	defer cancel()
	if got := problem.New(ctx, ctx.Err()); got.Status != http.StatusGatewayTimeout || got.Detail != "no answer within 1m" {
		t.Errorf("%+v", got)
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
	problem.Write(w, problem.Problem{Status: http.StatusServiceUnavailable, Detail: "no answer", RetryAfter: 7 * time.Second})
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got["type"] != "about:blank" || got["title"] != "Service Unavailable" || got["detail"] != "no answer" {
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

package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/adoptions"
	"github.com/watershipmq/watership/internal/operate/alerts"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/system"
)

// newAPI returns an API without a server around it, on an embedded store.
func newAPI(t *testing.T) *httpapi.API {
	t.Helper()
	cfg, err := config.Load(config.Sources{Environ: []string{
		"WATERSHIP_AMQP_URL=" + config.Embedded, "WATERSHIP_STORE_URL=sqlite:" + filepath.Join(t.TempDir(), "store.db"), "WATERSHIP_DATA=" + t.TempDir(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	sys, err := system.Start(t.Context(), system.Config{Settings: cfg, Name: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sys.Close() })
	store, err := sys.Store(t.Context())
	if err == nil {
		err = store.Install(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return httpapi.New(sys, nil)
}

func filtered(query string) eventfilter.QueryFilter {
	return eventfilter.QueryFilter{Filter: eventfilter.Filter{Query: query}}
}

func chosen(query string) eventfilter.Choice {
	return eventfilter.Choice{Filter: filtered(query).Filter}
}

// call returns the problem of a call, without its output.
func call[I, O any](op operation.Declared[I, O], in I) func(ctx context.Context, api *httpapi.API) error {
	return func(ctx context.Context, api *httpapi.API) error {
		_, err := op.Call(ctx, api, in)
		return err
	}
}

// A call is refused as the request is that it replaces: by the role, the limits and the bodies of its
// caller, and by the schemas of its input.
func TestCallsAreRefusedAsRequestsAre(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	viewer := access.Identity{Name: "vic", Method: access.ByToken, Role: access.Viewer}
	operator := access.Identity{Name: "ann", Method: access.ByToken, Role: access.Operator}
	limited := access.Identity{Name: "eve", Method: access.ByToken, Role: access.Operator, Queues: []string{"other"}}
	long := strings.Repeat("x", 4001)
	none := -1
	pause := routes.PauseInput{Queue: "orders"}
	pause.Body.Reason = "why"
	noReason := routes.PauseInput{Queue: "orders"}
	for name, test := range map[string]struct {
		caller           access.Identity
		method, at, body string
		call             func(ctx context.Context, api *httpapi.API) error
		status           int
	}{
		"no identity":          {access.Identity{}, "GET", "/fields", "", call(messages.ListFields, struct{}{}), 403},
		"role":                 {viewer, "POST", "/failures/discard", `{"query": "*", "reason": "x"}`, call(failures.DiscardFailures, failures.DiscardInput{Body: failures.Discard{Choice: chosen("*"), Bounds: operation.Bounds{Reason: "x"}}}), 403},
		"role of admins":       {operator, "POST", "/reload", "", call(httpapi.Reload, httpapi.ReloadInput{}), 403},
		"role first":           {viewer, "POST", "/waiting/decide", `{"query": "*", "action": "none", "reason": ""}`, call(waiting.DecideWaiting, waiting.DecideInput{Body: waiting.WaitingDecision{Choice: chosen("*"), Action: "none"}}), 403},
		"queue":                {limited, "POST", "/routes/orders/pause", `{"reason": "why"}`, call(routes.PauseRoute, pause), 403},
		"doctor":               {limited, "GET", "/doctor", "", call(doctor.RunDoctor, doctor.DoctorInput{}), 403},
		"error queue":          {limited, "POST", "/adoptions/preview", `{"queue": "errors", "format": "spring"}`, call(adoptions.PreviewAdoption, adoptions.PreviewInput{Body: adoptions.AdoptionRequest{Queue: "errors", Format: "spring"}}), 403},
		"bodies":               {viewer, "GET", "/messages/m-1/body", "", call(messages.GetBody, messages.BodyInput{ID: "m-1"}), 403},
		"search bodies":        {viewer, "GET", "/events?query=body.text:x", "", call(messages.SearchEvents, messages.SearchInput{QueryFilter: filtered("body.text:x")}), 403},
		"length":               {viewer, "GET", "/failures/groups?query=" + long, "", call(failures.GroupFailures, failures.GroupsInput{QueryFilter: filtered(long)}), 422},
		"length in body":       {operator, "POST", "/replays/plan", `{"query": "` + long + `", "target": {"kind": "origin"}}`, call(replays.PlanReplay, replays.PlanInput{Body: replays.Replay{Choice: eventfilter.Choice{Filter: filtered(long).Filter}, Target: replays.Target{Kind: "origin"}}}), 422},
		"length of path":       {viewer, "GET", "/replays/" + strings.Repeat("x", 101), "", call(replays.GetReplay, replays.JobInput{ID: strings.Repeat("x", 101)}), 422},
		"cursor":               {viewer, "GET", "/events?cursor=a.b", "", call(messages.SearchEvents, messages.SearchInput{Cursor: "a.b"}), 422},
		"bounds":               {viewer, "GET", "/events?limit=1001", "", call(messages.SearchEvents, messages.SearchInput{Limit: 1001}), 422},
		"bound of a float":     {viewer, "GET", "/doctor?max_age_seconds=-1", "", call(doctor.RunDoctor, doctor.DoctorInput{MaxAge: -1}), 422},
		"enum":                 {viewer, "GET", "/failures/groups?sort=size", "", call(failures.GroupFailures, failures.GroupsInput{Sort: "size"}), 422},
		"list":                 {viewer, "GET", "/failures/by?fields=a,b,c,d,e,f", "", call(failures.GroupFailuresBy, failures.ByInput{Fields: strings.Split("abcdef", "")}), 422},
		"required":             {viewer, "GET", "/events/values", "", call(messages.CountValues, messages.ValuesInput{}), 422},
		"required of a stream": {viewer, "GET", "/events/validate", "", call(messages.ValidateEvents, messages.ValidateInput{}), 422},
		"empty reason":         {operator, "POST", "/routes/orders/pause", `{"reason": ""}`, call(routes.PauseRoute, noReason), 422},
		"several": {
			operator, "POST", "/failures/discard", `{"query": "*", "ids": [], "expect": -1, "reason": "` + strings.Repeat("r", 1001) + `"}`,
			call(failures.DiscardFailures, failures.DiscardInput{Body: failures.Discard{Choice: chosen("*"), Bounds: operation.Bounds{Expect: &none, Reason: strings.Repeat("r", 1001)}}}), 422,
		},
		"size": {
			operator, "POST", "/messages", `{"exchange": "x", "text": "` + strings.Repeat("x", 1<<20) + `"}`,
			call(messages.PublishMessage, messages.PublishInput{Body: messages.Publication{Exchange: "x", Text: strings.Repeat("x", 1<<20)}}), 413,
		},
		"syntax":    {viewer, "GET", "/events?query=action:", "", call(messages.SearchEvents, messages.SearchInput{QueryFilter: filtered("action:")}), 400},
		"not found": {viewer, "GET", "/messages/nobody", "", call(messages.GetMessages, messages.MessagesInput{ID: "nobody"}), 404},
		"receiver":  {operator, "POST", "/alerts/test", `{"receiver": "nobody"}`, call(alerts.TestAlerts, receiverNamed("nobody")), 400},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := access.NewContext(t.Context(), test.caller)
			request := httptest.NewRequestWithContext(ctx, test.method, httpapi.Prefix+test.at, strings.NewReader(test.body))
			request.Header.Set("Content-Type", "application/json")
			response := httptest.NewRecorder()
			api.ServeHTTP(response, request)
			var want problem.Problem
			if err := json.Unmarshal(response.Body.Bytes(), &want); err != nil || response.Code != test.status {
				t.Fatalf("%d, %v: %s", response.Code, err, response.Body)
			}
			err := test.call(ctx, api)
			var got *problem.Problem
			if !errors.As(err, &got) {
				t.Fatalf("%v", err)
			}
			shown := *got
			shown.RetryAfter = 0 // a header
			if diff := cmp.Diff(want, shown); diff != "" {
				t.Errorf("the problem of the call (-request +call):\n%s", diff)
			}
		})
	}
}

func receiverNamed(name string) (in alerts.TestInput) {
	in.Body.Receiver = name
	return in
}

// A repeated call with a key acts once, and gets the output of the first. With another input or
// other permissions it is refused, and a call that was refused can be repeated.
func TestCallsWithAKey(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	caller := access.Identity{Name: "ann", Method: access.ByToken, Role: access.Operator, Bodies: true}
	ctx := access.NewContext(t.Context(), caller)
	create := func(ctx context.Context, key, text string) (string, error) {
		made, err := messages.PublishMessage.Call(ctx, api, messages.PublishInput{
			IdempotencyKey: operation.IdempotencyKey{Key: key},
			Body:           messages.Publication{Exchange: "", RoutingKey: "nowhere", Text: text},
		})
		return made.Body.Fingerprint, err
	}
	if _, err := create(ctx, "k", "a"); err == nil || problem.New(ctx, err).Status != http.StatusConflict {
		t.Fatalf("a message that reaches no queue: %v", err)
	}
	declareQueue(t, api, "nowhere")
	first, err := create(ctx, "k", "a")
	if err != nil || first == "" {
		t.Fatal(first, err)
	}
	for range 2 {
		if again, err := create(ctx, "k", "a"); again != first || err != nil {
			t.Errorf("%s, %v, want %s", again, err, first)
		}
	}
	if n := lenOf(t, api, "nowhere"); n != 1 {
		t.Errorf("%d messages were published", n)
	}
	without := caller
	without.Bodies = false
	for name, refused := range map[string]func() (string, error){
		"input":       func() (string, error) { return create(ctx, "k", "b") },
		"permissions": func() (string, error) { return create(access.NewContext(t.Context(), without), "k", "a") },
	} {
		if _, err := refused(); err == nil || problem.New(ctx, err).Status != http.StatusUnprocessableEntity {
			t.Errorf("other %s: %v", name, err)
		}
	}
}

func declareQueue(t *testing.T, api *httpapi.API, name string) {
	t.Helper()
	conn, err := api.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	channel, err := conn.Channel(t.Context())
	if err == nil {
		_, err = channel.QueueDeclare(name, true, false, false, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func lenOf(t *testing.T, api *httpapi.API, name string) int {
	t.Helper()
	conn, err := api.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	channel, err := conn.Channel(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	queue, err := channel.QueueDeclarePassive(name, true, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return queue.Messages
}

// Streams that calls have begun count until they are written, as those of requests do.
func TestStreamsOfCallsAreLimited(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	ctx := access.NewContext(t.Context(), access.Identity{Name: "ada", Method: access.ByToken, Role: access.Operator, Bodies: true})
	var open []huma.StreamResponse
	for {
		stream, err := replays.WatchReplay.Call(ctx, api, replays.JobInput{ID: "nobody"})
		if err == nil {
			t.Fatal("a job that does not exist is watched")
		}
		_ = stream // it was refused, so it counts no more
		if len(open) == 8 {
			break
		}
		tail, err := messages.TailEvents.Call(ctx, api, messages.TailInput{})
		if err != nil {
			if p := problem.New(ctx, err); p.Status != http.StatusTooManyRequests || len(open) != 4 {
				t.Fatalf("after %d streams: %v", len(open), err)
			}
			break
		}
		open = append(open, tail)
	}
	ended, end := context.WithCancel(ctx)
	end()
	open[0].Body(humago.NewContext(&huma.Operation{}, httptest.NewRequestWithContext(ended, http.MethodGet, "/", nil), deadlines{httptest.NewRecorder()}))
	if _, err := messages.TailEvents.Call(ctx, api, messages.TailInput{}); err != nil {
		t.Errorf("a stream has ended: %v", err)
	}
}

// A call that panics counts no more as under way.
func TestCallsThatPanic(t *testing.T) {
	t.Parallel()
	api := newAPI(t)
	ctx := access.NewContext(t.Context(), access.AsOperator("ada"))
	for range 100 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("a call with the input of another operation does not panic")
				}
			}()
			_ = api.Do(ctx, &replays.ListReplays.Operation, &struct{}{}, &struct{}{})
		}()
	}
	if _, err := replays.ListReplays.Call(ctx, api, replays.JobsInput{}); err != nil {
		t.Errorf("after calls that have panicked: %v", err)
	}
}

// deadlines is a response that can have deadlines.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetWriteDeadline(time.Time) error { return nil }

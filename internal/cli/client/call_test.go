package client_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"testing"

	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/operate/alerts"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/operation"
)

// explain has parameters of each form.
var explain = operation.Declare[struct {
	Kind string `path:"kind"`
	paging
	Fields  []string `query:"fields"`
	Headers []string `query:"header,explode"`
	Recent  bool     `query:"recent"`
}, struct{ Body struct{} }](operation.Operation{Method: http.MethodGet, Path: "/explain/{kind}/now", ID: "explain"})

type paging struct {
	Limit  int     `query:"limit" default:"20"`
	MaxAge float64 `query:"max_age"`
}

// upload has a body that is not JSON.
var upload = operation.Declare[struct {
	operation.IdempotencyKey
	RawBody []byte `contentType:"application/x-ndjson"`
}, struct{}](operation.Operation{Method: http.MethodPost, Path: "/upload", ID: "upload"})

// call sends a request of an operation with an input that fill fills.
func call[I, O any](d operation.Declared[I, O], fill func(in *I)) func(context.Context, *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		var in I
		fill(&in)
		_, err := d.Call(ctx, c, in)
		return err
	}
}

// A request has each value where the tag of its field says, and path values arrive as they are.
func TestRequests(t *testing.T) {
	t.Parallel()
	named := func(name string) func(*subscriptions.NameInput) {
		return func(in *subscriptions.NameInput) { in.Name = name }
	}
	for want, act := range map[string]func(context.Context, *client.Client) error{
		"GET /routes":             call(routes.ListRoutes, func(*routes.RoutesInput) {}),
		"GET /routes?recent=true": call(routes.ListRoutes, func(in *routes.RoutesInput) { in.Recent = true }),
		`POST /routes/orders/pause application/json keyed {"reason":"why"}`: call(routes.PauseRoute, func(in *routes.PauseInput) { in.Queue, in.Body.Reason = "orders", "why" }),
		"POST /routes/orders/resume keyed":                                  call(routes.ResumeRoute, func(in *routes.ResumeRouteInput) { in.Queue = "orders" }),
		`POST /routes/resume application/json keyed {"reason":"why"}`:       call(routes.ResumeAllRoutes, func(in *routes.ResumeAllInput) { operation.Fill(&in.Body).Reason = "why" }),
		"GET /subscriptions/a%2Fb":                                          call(subscriptions.GetSubscription, named("a/b")),
		"GET /subscriptions/%2E":                                            call(subscriptions.GetSubscription, named(".")),
		"GET /subscriptions/%2E%2E":                                         call(subscriptions.GetSubscription, named("..")),
		"GET /subscriptions/%3Fx=%23%25":                                    call(subscriptions.GetSubscription, named("?x=#%")),
		"POST /alerts/test application/json keyed {}":                       call(alerts.TestAlerts, func(*alerts.TestInput) {}),
		"GET /queues?cursor=a+b&limit=7":                                    call(routes.ListQueues, func(in *routes.QueuesInput) { in.Limit, in.Cursor = 7, "a b" }),
		"GET /queues?limit=10000":                                           call(routes.ListQueues, func(in *routes.QueuesInput) { in.Limit = math.MaxInt }),
		"POST /upload application/x-ndjson keyed a\nb": func(ctx context.Context, c *client.Client) error {
			_, err := upload.Call(ctx, c, struct {
				operation.IdempotencyKey
				RawBody []byte `contentType:"application/x-ndjson"`
			}{RawBody: []byte("a\nb")})
			return err
		},
	} {
		got, body := "", "{}"
		c := connected(t, func(w http.ResponseWriter, r *http.Request) {
			content, _ := io.ReadAll(r.Body)
			got = r.Method + " " + r.RequestURI[len("/api/v1"):]
			for _, part := range []string{r.Header.Get("Content-Type"), keyed(r), string(content)} {
				if part != "" {
					got += " " + part
				}
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, body)
		})
		if err := act(t.Context(), c); err != nil || got != want {
			t.Errorf("got  %s, %v\nwant %s", got, err, want)
		}
	}
}

func keyed(r *http.Request) string {
	if r.Header.Get("Idempotency-Key") == "" {
		return ""
	}
	return "keyed"
}

// Lists are one text unless the tag says otherwise, and zero values are left out.
func TestQueryOfRequest(t *testing.T) {
	t.Parallel()
	got := ""
	c := connected(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.RequestURI
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "{}")
	})
	err := call(explain, func(in *struct {
		Kind string `path:"kind"`
		paging
		Fields  []string `query:"fields"`
		Headers []string `query:"header,explode"`
		Recent  bool     `query:"recent"`
	},
	) {
		in.Kind, in.MaxAge, in.Fields, in.Headers = "x", 0.5, []string{"a", "b"}, []string{"h=1", "i=2"}
	})(t.Context(), c)
	if want := "/api/v1/explain/x/now?fields=a%2Cb&header=h%3D1&header=i%3D2&max_age=0.5"; err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

// A request that a proxy has lost is sent again if its caller has given it a key, with which the server
// acts once. Without such a key nobody knows whether it would act twice.
func TestLostRequests(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]int{"k-1": 2, "": 1} {
		var keys []string
		c := connected(t, func(w http.ResponseWriter, r *http.Request) {
			if keys = append(keys, r.Header.Get("Idempotency-Key")); len(keys) == 1 {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{}`)
		})
		in := alerts.TestInput{IdempotencyKey: operation.IdempotencyKey{Key: given}}
		_, err := alerts.TestAlerts.Call(t.Context(), c, in)
		if len(keys) != want || (err == nil) != (want == 2) || given != "" && (keys[0] != given || keys[1] != given) {
			t.Errorf("key %q: sent with %q, %v", given, keys, err)
		}
	}
}

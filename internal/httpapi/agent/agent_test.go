package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/watershipmq/watership/internal/operation/access"
)

// recorder keeps audit events.
type recorder []access.Record

func (r *recorder) Record(_ context.Context, made access.Record) error {
	*r = append(*r, made)
	return nil
}

func (*recorder) Ready() error { return nil }

// callOnce calls a tool as the library does: with the values of the context of a request, and without its end. The
// request ends with the context.
func callOnce(t *testing.T, ctx context.Context, called tool) (result *mcp.CallToolResult, records recorder) {
	t.Helper()
	guard, err := access.New(access.Config{Logger: slog.New(slog.DiscardHandler), Recorder: &records, Queries: []string{"/"}})
	if err != nil {
		t.Fatal(err)
	}
	h := &Handler{Config: Config{Logger: slog.New(slog.DiscardHandler)}}
	h.http = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		result, err = h.handle(called)(context.WithoutCancel(r.Context()), &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{}})
	})
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", nil)
	r.RemoteAddr = "127.0.0.1:1"
	guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.Serve(w, r, nil) })).ServeHTTP(httptest.NewRecorder(), r)
	if err != nil || result == nil {
		t.Fatalf("%v, %v", result, err)
	}
	return result, records
}

// A tool that panics has failed, and the process goes on.
func TestPanicsAreFailures(t *testing.T) {
	t.Parallel()
	result, records := callOnce(t, t.Context(), tool{name: "broken", call: func(context.Context, *Handler, map[string]json.RawMessage) answer { panic("a mistake") }})
	if !result.IsError || len(records) != 1 || records[0].Status != http.StatusInternalServerError {
		t.Errorf("%+v, %+v", result, records)
	}
}

// A call ends with its request.
func TestCallsEndWithTheirRequest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	result, _ := callOnce(t, ctx, tool{name: "slow", call: func(ctx context.Context, _ *Handler, _ map[string]json.RawMessage) answer {
		cancel()
		select {
		case <-ctx.Done():
			return refused(http.StatusServiceUnavailable, "it was canceled")
		case <-time.After(10 * time.Second):
			return answer{status: http.StatusOK}
		}
	}})
	if !result.IsError {
		t.Error("it was not canceled")
	}
}

// Names stand as they are, other texts under a key that is new, each part of a message as one text, and
// long ones are cut.
func TestMark(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"queue":"orders","id":"v1:ab","count":3,"time":"2026-05-04T03:00:00Z"}`:       `{"count":3,"id":"v1:ab","queue":"orders","time":"2026-05-04T03:00:00Z"}`,
		`{"queue":"do this","cursor":"` + strings.Repeat("a", 200) + `"}`:               `{"cursor":"` + strings.Repeat("a", 200) + `","queue":{"KEY":"do this"}}`,
		`{"body":{"json":{"do":"this"}},"headers":{"do":"this"},"reason":"this"}`:       `{"body":{"KEY":"{\"json\":{\"do\":\"this\"}}"},"headers":{"KEY":"{\"do\":\"this\"}"},"reason":{"KEY":"this"}}`,
		`{"queues":{"do this":1},"error":{"type":"E","message":"this"},"n":[" "]}`:      `{"error":{"message":{"KEY":"this"},"type":"E"},"n":[{"KEY":" "}],"queues":{"KEY":"{\"do this\":1}"}}`,
		`{"cursor":"do this","list":[{"cursor":"` + strings.Repeat("a", 101) + `"}]}`:   `{"cursor":{"KEY":"do this"},"list":[{"cursor":{"KEY":"` + strings.Repeat("a", 101) + `"}}]}`,
		`{"amqp":{"headers":{"do":"this"}},"typed_headers":["do"],"headers.note":"do"}`: `{"amqp":{"KEY":"{\"headers\":{\"do\":\"this\"}}"},"headers.note":{"KEY":"do"},"typed_headers":[{"KEY":"do"}]}`,
		`{"messages":[{"id":"m","values":{"headers.note":"do"}}]}`:                      `{"messages":[{"id":"m","values":{"KEY":"{\"headers.note\":\"do\"}"}}]}`,
		`{"text":"a\ufe0f\u3164\u2800"}`:                                                `{"text":{"KEY":"a\u003cU+FE0F\u003e\u003cU+3164\u003e\u003cU+2800\u003e"}}`,
		`{"text":"a\u202e\u200bb\nc"}`:                                                  `{"text":{"KEY":"a\u003cU+202E\u003e\u003cU+200B\u003eb\nc"}}`,
		`{"text":"` + strings.Repeat("é", 2010) + `"}`:                                  `{"text":{"cut":"10 more characters","KEY":"` + strings.Repeat("é", 2000) + `"}}`,
	} {
		got, key, err := mark([]byte(body))
		if key != "" {
			got = strings.ReplaceAll(got, key, "KEY")
		}
		if err != nil || got != want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", body, err, got, want)
		}
	}
	_, first, _ := mark([]byte(`{"text":"x"}`))
	if _, second, _ := mark([]byte(`{"text":"x"}`)); first == second {
		t.Errorf("two results have the key %s", first)
	}
}

// The texts of a long result are cut shorter, and one that is too long anyway is refused.
func TestMarkLongResults(t *testing.T) {
	t.Parallel()
	many := func(n int) []byte {
		body, _ := json.Marshal(map[string]any{"messages": make([]map[string]string, n), "texts": strings.Split(strings.Repeat(strings.Repeat("x", 1000)+" ", n), " ")})
		return body
	}
	if text, _, err := mark(many(100)); err != nil || len(text) > maxResult || !strings.Contains(text, "800 more characters") {
		t.Errorf("%v, %d bytes", err, len(text))
	}
	if text, _, err := mark(many(1000)); err != nil || len(text) > maxResult || !strings.Contains(text, "901 more elements") {
		t.Errorf("long lists: %v, %.1000s", err, text)
	}
	queues := map[string]int{}
	for i := range 10_000 {
		queues[fmt.Sprint("queue-", i)] = i
	}
	body, _ := json.Marshal(queues)
	result := answer{status: http.StatusOK, body: body, note: "It is done."}.result()
	if text := result.Content[len(result.Content)-1].(*mcp.TextContent).Text; result.IsError || len(result.Content) != 2 || !strings.Contains(text, "ask for less") {
		t.Errorf("a response that is too long: %v, %.1000s", result.IsError, text)
	}
}

// The words of a refusal are marked, besides those of its code.
func TestMarkRefusals(t *testing.T) {
	t.Parallel()
	result := answer{status: http.StatusConflict, body: []byte(`{"title":"Conflict","code":"conflict","detail":"do this","remedy":"do that"}`)}.result()
	if own := result.Content[0].(*mcp.TextContent).Text; own != "Conflict." || !result.IsError || len(result.Content) != 3 {
		t.Errorf("%q and %d more", own, len(result.Content)-1)
	}
}

// Arguments that are too long are kept nowhere.
func TestArgumentsAreBounded(t *testing.T) {
	t.Parallel()
	text := json.RawMessage(`{"query":"` + strings.Repeat("x", maxArguments) + `"}`)
	if done := (&Handler{}).call(t.Context(), tool{}, text); done.status != http.StatusRequestEntityTooLarge {
		t.Errorf("%+v", done)
	}
}

// A plan is found by its caller, for a time, and the oldest make room.
func TestPlans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ada := access.NewContext(t.Context(), access.Identity{Name: "ada", Method: access.ByToken})
		p := plans{byNumber: map[string]plan{}}
		number := p.add(ada, plan{op: "discardFailures"})
		found := func(ctx context.Context) bool { _, known := p.find(ctx, number); return known }
		if !found(ada) || found(access.NewContext(t.Context(), access.Identity{Name: "ada", Method: access.ByOIDC})) {
			t.Error("a plan is its caller's")
		}
		for i := range maxPlans {
			p.add(access.NewContext(t.Context(), access.Identity{Name: fmt.Sprint("bob-", i/maxOwn/2), Method: access.ByToken}), plan{})
		}
		if !found(ada) || len(p.numbers) != 1+maxPlans/2 {
			t.Errorf("%d plans are kept, of ada: %v", len(p.numbers), found(ada))
		}
		for range maxOwn {
			p.add(ada, plan{})
		}
		if found(ada) || len(p.numbers) != maxOwn+maxPlans/2 || len(p.byNumber) != len(p.numbers) {
			t.Errorf("%d plans are kept", len(p.numbers))
		}
		number = p.add(ada, plan{})
		time.Sleep(planAge)
		if !found(ada) {
			t.Error("a plan ends too early")
		}
		time.Sleep(time.Nanosecond)
		if found(ada) {
			t.Error("a plan is kept for ever")
		}
	})
}

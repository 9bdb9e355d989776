package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/system/runfile"
)

// newShop runs dev with its shop in this process, until the payment provider is back and some orders
// have failed. It returns the address of the console, and the store.
func newShop(t *testing.T) (address string, store testStore) {
	t.Helper()
	data := t.TempDir()
	cfg, err := config.Load(config.Sources{Environ: []string{
		"WATERSHIP_AMQP_URL=embedded://", "WATERSHIP_AMQP_LISTEN=127.0.0.1:0", "WATERSHIP_DATA=" + data, "WATERSHIP_HTTP_LISTEN=127.0.0.1:0",
		"WATERSHIP_STORE_URL=sqlite:" + runfile.StoreFile(data), "WATERSHIP_LOG_LEVEL=error",
	}})
	if err != nil {
		t.Fatal(err)
	}
	out, ended := &servertest.Sink{}, make(chan error, 1)
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	d := &dev{Streams: terminal.Streams{In: strings.NewReader(""), Out: out, Err: out}, seed: 1, rate: 4}
	go func() { ended <- d.serve(ctx, cfg) }()
	t.Cleanup(func() {
		end()
		if err := rabbittest.Receive(t, ended); err != nil {
			t.Error(err)
		}
	})
	servertest.Until(t, "the payment provider to be back", func() bool { return strings.Contains(out.String(), "is back") })
	return regexp.MustCompile(`http://127\S+`).FindString(out.String()), openStore(t, cfg.Store.URL.Reveal(), "")
}

// mender is an agent by `watership mcp`, whose calls are counted.
type mender struct {
	*testing.T
	session *mcp.ClientSession
	calls   int
}

func newMender(t *testing.T, address string) *mender {
	t.Helper()
	in, toCommand := io.Pipe()
	fromCommand, out := io.Pipe()
	ended := make(chan int, 1)
	errs := &servertest.Sink{}
	go func() {
		ended <- Run(context.WithoutCancel(t.Context()), terminal.Streams{In: in, Out: out, Err: errs}, []string{"mcp", "--server", address}, nil)
		_ = out.Close()
	}()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "mender", Version: "1"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: fromCommand, Writer: toCommand}, nil)
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	t.Cleanup(func() {
		_ = session.Close()
		if code := rabbittest.Receive(t, ended); code != exitOK {
			t.Errorf("mcp ended with %d: %s", code, errs.String())
		}
	})
	return &mender{t, session, 0}
}

// call calls a tool that has to succeed, and returns its note and its JSON.
func (m *mender) call(tool string, arguments map[string]any) (note string, value map[string]any) {
	m.Helper()
	m.calls++
	result, err := m.session.CallTool(m.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		m.Fatalf("%s: %v", tool, err)
	}
	texts := make([]string, len(result.Content))
	for i, content := range result.Content {
		texts[i] = content.(*mcp.TextContent).Text
	}
	if err := json.Unmarshal([]byte(texts[len(texts)-1]), &value); err != nil || result.IsError {
		m.Fatalf("%s: %v, %q", tool, err, texts)
	}
	return texts[0], value
}

// act plans an action, and does it.
func (m *mender) act(tool string, arguments map[string]any) map[string]any {
	m.Helper()
	note, planned := m.call("plan_"+tool, arguments)
	number := regexp.MustCompile(`This is the plan (\w+)`).FindStringSubmatch(note)
	if number == nil {
		m.Fatalf("plan_%s: %s %v", tool, note, planned)
	}
	_, done := m.call(tool, map[string]any{"plan": number[1]})
	return done
}

// An agent that starts `watership mcp` finds what failed in the shop, replays the orders that the payment
// provider refused, and resolves those that can never be billed, in 8 calls.
func TestAgentMendsTheShop(t *testing.T) {
	t.Parallel()
	address, store := newShop(t)
	m := newMender(t, address)
	_, found := m.call("groupFailures", nil)
	groups, anonymous := found["groups"].([]any), []string{}
	payment := ""
	for _, g := range groups {
		group := g.(map[string]any)
		if group["class"] == "payment" {
			payment = group["id"].(string)
		} else {
			anonymous = append(anonymous, group["id"].(string))
		}
	}
	_, one := m.call("getGroupFailure", map[string]any{"group": payment})
	if text, _ := json.Marshal(one); !strings.Contains(string(text), "503 Service Unavailable") {
		t.Errorf("the failure is %s", text)
	}
	m.act("resolveFailures", map[string]any{"groups": anonymous, "reason": "orders without a customer"})
	job := m.act("startReplay", map[string]any{
		"query": "action: poisoned and watership.class: payment", "target": map[string]any{"kind": "failed_queue"}, "reason": "the payment provider is back",
	})
	servertest.Until(t, "the orders to be billed", func() bool {
		n, err := store.Count(t.Context(), eventstore.Selection{Query: kql.And{kql.FieldIs("event.action", "handled"), kql.FieldIs("watership.replay.job", job["id"].(string))}})
		return err == nil && n > 0 && float64(n) == job["total"]
	})
	_, outcomes := m.call("getOutcomes", map[string]any{"id": job["id"]})
	_, left := m.call("groupFailures", map[string]any{"query": "watership.class: payment"})
	if outcomes["handled"] != job["total"] || left["failures"] != 0.0 || m.calls > 8 {
		t.Errorf("after %d calls: %v of %v, %v", m.calls, outcomes, job, left)
	}
	audited := eventstore.Selection{Query: kql.And{kql.FieldIs("event.action", "audited"), kql.FieldIs("watership.audit.client", "mender 1")}}
	servertest.Until(t, "the calls to be recorded", func() bool {
		n, err := store.Count(t.Context(), audited)
		return err == nil && n >= int64(m.calls)
	})
}

// newTool serves a tool "wait" by HTTP, which says when it was called, until the test ends. The server refuses each request
// when refuses is true. An agent is connected to serveTools, which has ended when ended has its error.
func newTool(t *testing.T, ctx context.Context, refuses *atomic.Bool) (agent *mcp.ClientSession, called chan struct{}, ended chan error) {
	t.Helper()
	called, ended = make(chan struct{}, 1), make(chan error, 1)
	released := make(chan struct{})
	tools := mcp.NewServer(&mcp.Implementation{Name: "tools"}, nil)
	tools.AddTool(&mcp.Tool{Name: "wait", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		called <- struct{}{}
		<-released
		return &mcp.CallToolResult{}, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return tools }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuses.Load() {
			http.Error(w, "{}", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(released) })
	in, toCommand := io.Pipe()
	fromCommand, out := io.Pipe()
	go func() {
		ended <- serveTools(ctx, &mcp.StreamableClientTransport{Endpoint: server.URL, DisableStandaloneSSE: true}, terminal.Streams{In: in, Out: out, Err: io.Discard})
		_ = out.Close()
	}()
	agent, err := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: fromCommand, Writer: toCommand}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Close() })
	return agent, called, ended
}

// A command that is ended does not wait for calls.
func TestMCPEndsWithCalls(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	agent, called, ended := newTool(t, ctx, &atomic.Bool{})
	go func() { _, _ = agent.CallTool(t.Context(), &mcp.CallToolParams{Name: "wait"}) }()
	rabbittest.Receive(t, called)
	cancel()
	if err := rabbittest.Receive(t, ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A token that is revoked ends the command, since each further call would fail.
func TestMCPEndsWithItsSession(t *testing.T) {
	t.Parallel()
	var refuses atomic.Bool
	agent, _, ended := newTool(t, t.Context(), &refuses)
	refuses.Store(true)
	if _, err := agent.CallTool(t.Context(), &mcp.CallToolParams{Name: "wait"}); err == nil {
		t.Error("a call that was refused")
	}
	if err := rabbittest.Receive(t, ended); err == nil || !strings.Contains(err.Error(), "the session with the server has ended") {
		t.Error(err)
	}
}

// The command needs a server.
func TestMCPNeedsAServer(t *testing.T) {
	t.Parallel()
	if r := call(t.Context(), strings.NewReader(""), nil, "mcp", "--data", t.TempDir()); r.Code != exitUsage || !strings.Contains(r.Err, "give --server") {
		t.Errorf("%+v", r)
	}
}

// Package agent serves operations of the API to agents, as tools of the Model Context Protocol
// (https://modelcontextprotocol.io). docs/agents.md has the rules: an action needs a plan, each call
// is audited, and texts of messages are marked as data.
package agent

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
)

// Config has the operations, callers and limits of the tools.
type Config struct {
	Version    string         // of the program
	Operations *operation.Set // that API serves
	API        http.Handler   // of the requests of operations, by the identity in their context
	Prefix     string         // of their paths
	Logger     *slog.Logger
}

// Handler serves the Model Context Protocol by streamable HTTP. The context of a request has the
// identity of the caller, which decides on the tools that it lists. No process has sessions:
// requests of an agent may go to several.
type Handler struct {
	Config
	plans   plans
	servers map[access.Role]*mcp.Server
	http    http.Handler
}

const instructions = `Watership records the messages of a RabbitMQ system, retries what fails, and replays any of it.
To mend failures: groupFailures shows what failed and why; getGroupFailure has one message. Each action has a tool plan_NAME,
which changes nothing and returns what the action would change with the number of the plan; the tool NAME takes that number,
within 15 minutes, and does exactly what was planned. A replay with target {"kind":"failed_queue"} sends messages only to the queue that failed;
getOutcomes says what became of them.
`

// New makes a Handler.
func New(cfg Config) *Handler {
	h := &Handler{Config: cfg, servers: map[access.Role]*mcp.Server{}, plans: plans{byNumber: map[string]plan{}}}
	tools := h.tools()
	for _, role := range []access.Role{access.Viewer, access.Operator, access.Admin} {
		server := mcp.NewServer(&mcp.Implementation{Name: "watership", Version: cfg.Version}, &mcp.ServerOptions{
			Instructions: instructions + fmt.Sprintf(rule, "data_ and eight characters"), Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		})
		for _, t := range tools {
			if t.op.Role <= role {
				server.AddTool(t.described(), h.handle(t))
			}
		}
		server.AddReceivingMiddleware(refusing(tools, role))
		h.servers[role] = server
	}
	h.http = mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		return h.servers[access.FromContext(r.Context()).Role]
	}, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true, PropagateRequestCancellation: true,
		DisableLocalhostProtection: true, // package access checks the host, and knows proxies
	})
	return h
}

// sessionHeader is the header that a client repeats in its requests.
const sessionHeader = "Mcp-Session-Id"

// Serve serves a request, whose body was read.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, body []byte) {
	var first struct {
		Method string
		Params struct{ ClientInfo *mcp.Implementation }
	}
	if json.Unmarshal(body, &first) == nil && first.Method == "initialize" && first.Params.ClientInfo != nil {
		w.Header().Set(sessionHeader, base64.RawURLEncoding.EncodeToString([]byte(nameOf(first.Params.ClientInfo))))
	}
	h.http.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, r.Context())))
}

// requestKey is the key of the context of the request in the context of a call: the library gives calls of older
// versions of the protocol one that does not end with the request.
type requestKey struct{}

// refusing returns a function that records the calls of tools that a role does not have. The library
// refuses them.
func refusing(tools []tool, role access.Role) mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			call, is := req.(*mcp.CallToolRequest)
			if !is || !slices.ContainsFunc(tools, func(t tool) bool { return t.name == call.Params.Name && t.op.Role > role }) {
				return next(ctx, method, req)
			}
			ctx = named(ctx, call)
			err := access.Call(ctx, access.Action{Name: call.Params.Name, Object: string(call.Params.Arguments)}, func(ctx context.Context) int {
				access.Refuse(ctx, "the role "+role.String()+" does not have this tool")
				return http.StatusForbidden
			})
			if err != nil {
				return nil, err
			}
			return next(ctx, method, req)
		}
	}
}

// named returns a context in which the caller has the name of its client.
func named(ctx context.Context, req *mcp.CallToolRequest) context.Context {
	caller := access.FromContext(ctx)
	caller.Client = clientOf(req)
	return access.NewContext(ctx, caller)
}

const maxName = 100 // bytes

// nameOf returns the name of a client with its version.
func nameOf(client *mcp.Implementation) string {
	name := strings.TrimSpace(client.Name + " " + client.Version)
	return strings.ToValidUTF8(name[:min(len(name), maxName)], "")
}

// clientOf returns the name of the client of a call, as it says itself: in the call, or when it began,
// which is the id of its session.
func clientOf(req *mcp.CallToolRequest) string {
	if client := req.ClientInfo(); client != nil && client.Name != "" {
		return nameOf(client)
	}
	if req.Extra == nil {
		return ""
	}
	if name, err := base64.RawURLEncoding.DecodeString(req.Extra.Header.Get(sessionHeader)); err == nil && len(name) > 0 {
		return nameOf(&mcp.Implementation{Name: string(name)})
	}
	return nameOf(&mcp.Implementation{Name: req.Extra.Header.Get("User-Agent")})
}

// handle returns the function of a tool. Each call has an audit event, and ends with its request.
func (h *Handler) handle(t tool) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		ctx, cancel := context.WithCancel(named(ctx, req))
		defer cancel()
		if request, is := ctx.Value(requestKey{}).(context.Context); is {
			defer context.AfterFunc(request, cancel)()
		}
		var done answer
		err := access.Call(ctx, access.Action{Name: t.name, Object: string(req.Params.Arguments)}, func(ctx context.Context) int {
			done = h.call(ctx, t, req.Params.Arguments)
			if done.failed() && len(done.body) == 0 {
				access.Refuse(ctx, done.note)
			}
			return done.status
		})
		if err != nil {
			done = refused(http.StatusInternalServerError, err.Error())
		}
		return done.result(), nil
	}
}

const maxArguments = 256 << 10 // bytes; plans keep them

// call does a call of a tool. The library would end the process with a panic.
func (h *Handler) call(ctx context.Context, t tool, text json.RawMessage) (done answer) {
	defer func() {
		if cause := recover(); cause != nil {
			h.Logger.Error("a call of a tool failed", "tool", t.name, "panic", cause, "stack", string(debug.Stack()))
			done = refused(http.StatusInternalServerError, "The server failed: its log says why. Look at the effect of an action before you repeat it.")
		}
	}()
	if len(text) > maxArguments {
		return refused(http.StatusRequestEntityTooLarge, "The arguments are longer than 256 KiB: give fewer.")
	}
	var arguments map[string]json.RawMessage
	if err := json.Unmarshal(text, &arguments); err != nil && len(text) > 0 {
		return refused(http.StatusUnprocessableEntity, "the arguments are no JSON object")
	}
	return t.call(ctx, h, arguments)
}

// answer is the answer of a call: the response of an operation, or a plan with one.
type answer struct {
	status int
	body   []byte // JSON
	note   string // for the agent, in the words of this package
}

func refused(status int, why string) answer { return answer{status: status, note: why} }

func (a answer) failed() bool { return a.status >= http.StatusBadRequest }

// request does the request of an operation for the caller in the context. key is its
// Idempotency-Key; "": none.
func (h *Handler) request(ctx context.Context, op *operation.Operation, arguments map[string]json.RawMessage, key string) answer {
	r, err := op.Request(h.Prefix, arguments)
	if err != nil {
		return refused(http.StatusUnprocessableEntity, wordsOf(err))
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	w := &response{header: http.Header{}}
	h.API.ServeHTTP(w, r.WithContext(ctx))
	if w.status == 0 {
		return refused(http.StatusInternalServerError, "The server did not answer.")
	}
	return answer{status: w.status, body: w.body.Bytes()}
}

// response is a response in memory.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *response) Write(content []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(content)
}

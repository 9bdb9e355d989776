package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/idempotency"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/operation/sse"
)

// Bounds of the transfer of a request and its response. Between them, the time of the
// operation counts.
const (
	bodyTimeout  = 30 * time.Second
	writeTimeout = sse.WriteTimeout
)

// Role returns the role that a request needs.
func (a *API) Role(r *http.Request) access.Role {
	pattern := a.mux.Pattern(r)
	if op, known := a.operations.Find(pattern); known {
		return op.Role
	}
	return access.Viewer
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	if r.URL.Path == Prefix+"/openapi.json" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(a.document)
		return
	}
	if r.URL.Path == Prefix+AgentPath {
		a.serveAgent(w, r)
		return
	}
	pattern := a.mux.Pattern(r)
	op, known := a.operations.Find(pattern)
	if !known {
		a.writeNoOperation(w, r)
		return
	}
	r, refused := op.ReadQuery(r)
	if refused != nil {
		problem.Write(w, *refused)
		return
	}
	caller := access.FromContext(r.Context())
	if refused := a.slots.take(caller, op.Stream); refused != nil {
		problem.Write(w, *refused)
		return
	}
	defer a.slots.give(caller, op.Stream)
	body, refused := readBody(w, r, op)
	if refused != nil {
		problem.Write(w, *refused)
		return
	}
	if refused := op.CheckBody(body); refused != nil {
		problem.Write(w, *refused)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(op.Limit() + writeTimeout))
	defer abortFailedWrites()
	if r.Method == http.MethodPost && r.Header.Get(idempotency.Header) != "" {
		a.serveOnce(w, r, body)
		return
	}
	a.mux.ServeHTTP(w, r)
}

// AgentPath is the path below Prefix at which agents call operations.
const AgentPath = "/mcp"

// serveAgent serves a request of the Model Context Protocol. Its call is checked and limited as a request, so
// it can have one only: the newest versions of the protocol have no batches either.
func (a *API) serveAgent(w http.ResponseWriter, r *http.Request) {
	request := &operation.Operation{Timeout: 10 * time.Minute} // as the slowest of them
	body, refused := readBody(w, r, request)
	if refused != nil {
		problem.Write(w, *refused)
		return
	}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		problem.Write(w, *problem.BadRequest("a request has one call, and this is a batch", "Send each in a request of its own."))
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(request.Limit() + writeTimeout))
	a.agents().Serve(w, r, body)
}

// Queries returns the patterns of requests that change nothing themselves although their method may.
func (a *API) Queries() []string {
	return append(a.operations.Queries(), Prefix+AgentPath)
}

// abortFailedWrites replaces the panic with which huma reports that a response cannot be
// written, as to a client that has gone, by the one that net/http does not log.
func abortFailedWrites() {
	switch cause := recover().(type) {
	case nil:
	case error:
		var broken interface{ RuntimeError() }
		if errors.As(cause, &broken) {
			panic(cause)
		}
		panic(http.ErrAbortHandler)
	default:
		panic(cause)
	}
}

// readBody replaces the body of a request by its bytes, which it reads within a time and
// a size. Then it removes the deadline of the server for reading: net/http cancels the
// context of a request when that passes.
func readBody(w http.ResponseWriter, r *http.Request, op *operation.Operation) ([]byte, *problem.Problem) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(bodyTimeout))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, op.BodyLimit()))
	_ = control.SetReadDeadline(time.Time{})
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, op.TooLarge()
	case err != nil:
		return nil, &problem.Problem{Code: code.InvalidRequest, Detail: "the body of the request cannot be read: " + err.Error()}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

// writeNoOperation answers a request for no operation, with the methods that its path
// has.
func (a *API) writeNoOperation(w http.ResponseWriter, r *http.Request) {
	if allowed := a.methodsOf(r); len(allowed) > 0 {
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		problem.Write(w, problem.Problem{Code: code.MethodNotAllowed, Detail: "the path does not have the method " + r.Method, Remedy: "Use " + strings.Join(allowed, " or ") + "."})
		return
	}
	problem.Write(w, problem.Problem{Code: code.NotFound, Detail: "the API has no such path", Remedy: "See " + Prefix + "/openapi.json."})
}

// Run runs the jobs and adoptions that requests start until ctx ends, which pauses jobs and
// ends adoptions.
func (a *API) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { a.runs.Run(ctx, a.System.Logger()) })
	group.Go(func() { a.adoptions.Run(ctx, a.System.Logger()) })
	group.Wait()
	return nil
}

// methodsOf returns the methods of the path of a request: of the path itself, or else
// of a path with a variable.
func (a *API) methodsOf(r *http.Request) (exact []string) {
	var others []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		switch pattern := a.mux.Pattern(other); pattern {
		case "":
		case method + " " + r.URL.Path:
			exact = append(exact, method)
		default:
			others = append(others, method)
		}
	}
	if len(exact) > 0 {
		return exact
	}
	return others
}

// serveOnce passes on a request unless it repeats another one of the caller, whose response
// it gets then. A caller whose permissions have changed since does not get it: the response may
// have data that it may not see any more.
func (a *API) serveOnce(w http.ResponseWriter, r *http.Request, body []byte) {
	caller := access.FromContext(r.Context())
	key := keyOf(caller, r.Header.Get(idempotency.Header))
	content := idempotency.Digest(r.URL.Path, r.URL.RawQuery, string(body), caller.Permissions())
	a.responses.Serve(w, r, key, content, a.mux)
}

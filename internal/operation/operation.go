// Package operation declares what operators do: each operation with its request, its response,
// the role that it needs, and its bounds. The HTTP API serves the operations, and commands and
// pages call them.
package operation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
)

// Set has the functions of operations.
type Set struct {
	huma       huma.API // nil: the functions are called in this process alone
	prefix     string
	operations map[string]*Operation // by pattern
	functions  map[string]function   // by the ID of the operation
	guard      Guard                 // nil: each is done at once
}

// Guard returns nil if a caller may do an operation, whose input is in, now.
type Guard func(ctx context.Context, op *Operation, in any) error

// Guard has each operation of the set ask first.
func (s *Set) Guard(ask Guard) { s.guard = ask }

// NewSet returns an empty set, whose operations an API serves below the path prefix.
func NewSet(api huma.API, prefix string) *Set {
	return &Set{api, prefix, map[string]*Operation{}, map[string]function{}, nil}
}

// NewLocal returns an empty set, whose operations are called in this process. Nothing of an API
// is built for them, which takes longer than most commands.
func NewLocal() *Set { return NewSet(nil, "") }

// Find returns the operation of a pattern of http.ServeMux.
func (s *Set) Find(pattern string) (*Operation, bool) {
	op, found := s.operations[pattern]
	return op, found
}

// Queries returns the patterns of operations that a viewer may do although their method may change something.
func (s *Set) Queries() (patterns []string) {
	for pattern, op := range s.operations {
		if op.Method != http.MethodGet && op.Role == access.Viewer {
			patterns = append(patterns, pattern)
		}
	}
	return patterns
}

// Operation declares an operation of the API.
type Operation struct {
	Method, Path  string
	ID            string // of the operation in generated clients
	Tag           string
	Summary, Text string
	Role          access.Role   // that a caller needs
	Status        int           // of success; 0: 200
	Timeout       time.Duration // 0: 30 s
	MaxBody       int64         // bytes of the request's body; 0: 1 MiB
	Stream        bool          // the response ends with the client, or is long
	Unsigned      bool          // nothing but its audit event has the name of the operator
	Reads         bool          // bodies or originals, for which a caller may have to give a reason
	Responses     map[string]*huma.Response

	parameters []*huma.Param
	body       *huma.Schema  // of the request; nil: it has none
	schemas    huma.Registry // to which body refers
}

const (
	requestTimeout = 30 * time.Second
	maxBody        = 1 << 20
)

// Limit returns the longest time of a request.
func (op *Operation) Limit() time.Duration {
	if op.Timeout > 0 {
		return op.Timeout
	}
	return requestTimeout
}

// BodyLimit returns the size of the largest body of a request.
func (op *Operation) BodyLimit() int64 {
	if op.MaxBody > 0 {
		return op.MaxBody
	}
	return maxBody
}

// answer returns a function that does an operation within its time, and whose errors are problems.
func answer[I, O any](op Operation, do func(ctx context.Context, in *I) (*O, error)) func(ctx context.Context, in *I) (*O, error) {
	return func(ctx context.Context, in *I) (*O, error) {
		if !op.Stream {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, op.Limit(), fmt.Errorf("no answer within %s", op.Limit()))
			defer cancel()
		}
		out, err := do(ctx, in)
		if err != nil {
			p := problem.New(ctx, err)
			access.Refuse(ctx, p.Detail)
			return nil, p
		}
		return out, nil
	}
}

// serve adds an operation to the API, which checks the roles of requests before it reads them.
func serve[I, O any](s *Set, op Operation, do func(ctx context.Context, in *I) (*O, error)) {
	described := huma.Operation{
		Method: op.Method, Path: op.Path, OperationID: op.ID, Summary: op.Summary, Description: op.Text, Tags: []string{op.Tag},
		DefaultStatus: op.Status, MaxBodyBytes: op.BodyLimit(), BodyReadTimeout: -1, // ServeHTTP has read the body
		Responses:   map[string]*huma.Response{"default": problemResponse(s.huma.OpenAPI().Components.Schemas)},
		Extensions:  map[string]any{"x-role": op.Role.String()},
		Middlewares: huma.Middlewares{s.checkRole(op.Role)},
	}
	if op.Reads {
		described.Parameters = []*huma.Param{reasonParameter()}
	}
	for status, response := range op.Responses {
		described.Responses[status] = copied(response)
	}
	huma.Register(s.huma, described, do)
	path := s.huma.OpenAPI().Paths[op.Path]
	for _, registered := range []*huma.Operation{path.Get, path.Post} {
		if registered != nil && registered.OperationID == op.ID {
			op.parameters = registered.Parameters
			op.body, op.schemas = bodySchema(registered), s.huma.OpenAPI().Components.Schemas
		}
	}
	s.operations[op.Method+" "+s.prefix+op.Path] = &op
}

// reasonParameter describes the header that access.Guard reads.
func reasonParameter() *huma.Param {
	longest := access.MaxReason
	return &huma.Param{
		Name: access.ReasonHeader, In: "header", Schema: &huma.Schema{Type: huma.TypeString, MaxLength: &longest},
		Description: "Why bodies or the original are read, for the audit event; callers whose permission says so read none without it",
	}
}

// copied returns a copy of a response for one API: huma adds to it, and a declaration belongs to all.
func copied(response *huma.Response) *huma.Response {
	own := *response
	own.Headers, own.Content = maps.Clone(response.Headers), maps.Clone(response.Content)
	for name, header := range own.Headers {
		h := *header
		own.Headers[name] = &h
	}
	for name, content := range own.Content {
		c := *content
		own.Content[name] = &c
	}
	return &own
}

func (s *Set) checkRole(role access.Role) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if caller := access.FromContext(ctx.Context()); !caller.May(role) {
			refused := access.NeedsRole(caller, role)
			access.Refuse(ctx.Context(), refused.Problem)
			p := problem.New(ctx.Context(), refused)
			ctx.SetHeader("Content-Type", p.ContentType(""))
			ctx.SetStatus(p.Status)
			_ = json.NewEncoder(ctx.BodyWriter()).Encode(p)
			return
		}
		next(ctx)
	}
}

func problemResponse(schemas huma.Registry) *huma.Response {
	schema := schemas.Schema(reflect.TypeFor[problem.Problem](), true, "")
	return &huma.Response{Description: "A problem", Content: map[string]*huma.MediaType{"application/problem+json": {Schema: schema}}}
}

// ReadQuery returns a request whose query huma reads as a whole: it would take an empty number
// for one that is not there, and the first of several values for all. A list that is repeated
// has all values; anything else is refused.
func (op *Operation) ReadQuery(r *http.Request) (*http.Request, *problem.Problem) {
	query, isChanged := r.URL.Query(), false
	for _, p := range op.parameters {
		values, place := query[p.Name], "query."+p.Name
		isList := p.Schema.Type == huma.TypeArray
		switch {
		case p.In != "query":
		case !isList && p.Schema.Type != huma.TypeString && slices.Contains(values, ""):
			return nil, problem.Invalid(place, "expected a value, or no such parameter")
		case !isList && len(values) > 1:
			return nil, problem.Invalid(place, "expected one value")
		case isList && len(values) > 1 && !*p.Explode:
			query[p.Name], isChanged = []string{strings.Join(values, ",")}, true
		}
	}
	if !isChanged {
		return r, nil
	}
	read, address := r.WithContext(r.Context()), *r.URL
	address.RawQuery = query.Encode()
	read.URL = &address
	return read, nil
}

// bodySchema returns the schema of the JSON body of a request, or nil if it has none.
func bodySchema(of *huma.Operation) *huma.Schema {
	if of.RequestBody == nil {
		return nil
	}
	if content := of.RequestBody.Content["application/json"]; content != nil {
		return content.Schema
	}
	return nil
}

// IdempotencyKey is the header with which a repeated request acts once.
type IdempotencyKey struct {
	Key string `header:"Idempotency-Key" maxLength:"255" doc:"A text that is new for each action, such as a UUID: repeated requests with it act once, and get the same response"`
}

// Repeatable is an input with the key of its request.
type Repeatable interface{ RepeatKey() string }

// RepeatKey implements Repeatable.
func (k IdempotencyKey) RepeatKey() string { return k.Key }

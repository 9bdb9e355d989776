// Package api serves Watership's HTTP API: what commands do with RabbitMQ and the store,
// for programs and for a console. docs/openapi.json describes each operation.
package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/watershipmq/watership/internal/access"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/idempotency"
	"github.com/watershipmq/watership/internal/jobs"
	"github.com/watershipmq/watership/internal/problem"
)

// Prefix begins the path of each operation.
const Prefix = "/api/v1"

// API is the handler of Prefix. Requests have an identity in their context
// (access.NewContext).
type API struct {
	app        *app.App
	mux        *http.ServeMux
	huma       huma.API
	document   []byte // OpenAPI, as JSON
	operations map[string]operation
	runs       *jobs.Runner
	responses  *idempotency.Responses
	diagnosing chan struct{} // has an element while doctor runs, or diagnosis is read
	diagnosis  Diagnosis     // the latest
	slots      chan struct{} // one element for each request under way
	streams    chan struct{} // one element for each of them that is a stream
}

// Limits of requests under way, which leave connections of http.listen for health checks
// and metrics.
const (
	maxRequests = 32
	maxStreams  = 16
)

// New returns the API of an App.
func New(a *app.App) *API {
	api := &API{
		app: a, mux: http.NewServeMux(), operations: map[string]operation{},
		runs: jobs.New(a), responses: idempotency.New(jobs.KeyAge, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { problem.Write(w, *jobs.ErrOtherRequest()) })),
		diagnosing: make(chan struct{}, 1),
		slots:      make(chan struct{}, maxRequests), streams: make(chan struct{}, maxStreams),
	}
	api.huma = humago.NewWithPrefix(api.mux, Prefix, humaConfig())
	api.registerEvents()
	api.registerCounts()
	api.registerMessages()
	api.registerStreams()
	api.registerPublish()
	api.registerExport()
	api.registerTail()
	api.registerFailures()
	api.registerReplays()
	api.registerRoutes()
	api.registerDoctor()
	api.registerVersion()
	api.document = api.describe()
	return api
}

// Document returns the OpenAPI document of the API as JSON.
func (a *API) Document() []byte { return a.document }

// humaConfig leaves out huma's pages and its links to schemas: the document has it all.
func humaConfig() huma.Config {
	cfg := huma.DefaultConfig("Watership", "1")
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath, cfg.CreateHooks = "", "", "", nil
	cfg.RejectUnknownQueryParameters = true
	cfg.Transformers = []huma.Transformer{problemOfHuma}
	cfg.Formats = map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat}
	cfg.Info.Description = "Search, follow, replay and publish the messages of a RabbitMQ system. " +
		"Errors are problems as RFC 9457 has them. Lists are bounded; a cursor continues them."
	cfg.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	cfg.Servers = []*huma.Server{{URL: Prefix}}
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	cfg.Security = []map[string][]string{{"token": {}}}
	return cfg
}

// describe returns the OpenAPI document, without the error type of huma, which no
// response has.
func (a *API) describe() []byte {
	schemas := a.huma.OpenAPI().Components.Schemas.Map()
	delete(schemas, "ErrorModel")
	delete(schemas, "ErrorDetail")
	text, err := json.MarshalIndent(a.huma.OpenAPI(), "", "  ")
	if err != nil {
		panic(fmt.Sprintf("api: the OpenAPI document cannot be written: %v", err)) // a mistake of this package
	}
	return append(text, '\n')
}

// operation declares an operation of the API.
type operation struct {
	method, path  string
	id            string // of the operation in generated clients
	tag           string
	summary, text string
	role          access.Role   // that a caller needs
	status        int           // of success; 0: 200
	timeout       time.Duration // 0: requestTimeout
	maxBody       int64         // bytes of the request's body; 0: maxBody
	stream        bool          // the response ends with the client, or is long
	responses     map[string]*huma.Response
	valued        []string // query parameters that are no texts
}

const (
	requestTimeout = 30 * time.Second
	maxBody        = 1 << 20
)

func (op operation) limit() time.Duration {
	if op.timeout > 0 {
		return op.timeout
	}
	return requestTimeout
}

func (op operation) bodyLimit() int64 {
	if op.maxBody > 0 {
		return op.maxBody
	}
	return maxBody
}

// register adds an operation. This is the one place that checks roles, and that bounds
// the time of requests.
func register[I, O any](a *API, op operation, do func(ctx context.Context, in *I) (*O, error)) {
	described := huma.Operation{
		Method: op.method, Path: op.path, OperationID: op.id, Summary: op.summary, Description: op.text, Tags: []string{op.tag},
		DefaultStatus: op.status, MaxBodyBytes: op.bodyLimit(), BodyReadTimeout: -1, // ServeHTTP has read the body
		Responses:   map[string]*huma.Response{"default": problemResponse(a.huma.OpenAPI().Components.Schemas)},
		Extensions:  map[string]any{"x-role": op.role.String()},
		Middlewares: huma.Middlewares{a.checkRole(op.role)},
	}
	for status, response := range op.responses {
		described.Responses[status] = response
	}
	huma.Register(a.huma, described, func(ctx context.Context, in *I) (*O, error) {
		if !op.stream {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, op.limit(), fmt.Errorf("no answer within %s", op.limit()))
			defer cancel()
		}
		out, err := do(ctx, in)
		if err != nil {
			return nil, problem.New(ctx, err)
		}
		return out, nil
	})
	path := a.huma.OpenAPI().Paths[op.path]
	for _, registered := range []*huma.Operation{path.Get, path.Post} {
		if registered != nil && registered.OperationID == op.id {
			op.valued = valuedParameters(registered)
		}
	}
	a.operations[op.method+" "+Prefix+op.path] = op
}

func (a *API) checkRole(role access.Role) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if caller := access.FromContext(ctx.Context()); !caller.May(role) {
			_ = huma.WriteErr(a.huma, ctx, http.StatusForbidden, fmt.Sprintf("%s has the role %s, and this needs %s", caller.Name, caller.Role, role))
			return
		}
		next(ctx)
	}
}

// Package httpapi serves Watership's HTTP API: what commands do with RabbitMQ and the store,
// for programs and for a console. docs/openapi.json describes each operation.
package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/watershipmq/watership/internal/httpapi/agent"
	"github.com/watershipmq/watership/internal/operate/adoptions"
	"github.com/watershipmq/watership/internal/operate/alerts"
	"github.com/watershipmq/watership/internal/operate/approvals"
	"github.com/watershipmq/watership/internal/operate/deliveries"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operate/quarantine"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operate/searches"
	"github.com/watershipmq/watership/internal/operate/subjects"
	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/idempotency"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/server"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline"
)

// Prefix begins the path of each operation.
const Prefix = "/api/v1"

// API is the handler of Prefix. Requests have an identity in their context
// (access.NewContext).
type API struct {
	*system.System
	server     *server.Server
	mux        *operation.Mux
	huma       huma.API
	document   []byte // OpenAPI, as JSON
	operations *operation.Set
	runs       *replays.Runner
	adoptions  *adoptions.Runner
	responses  *idempotency.Responses
	slots      slots
	agents     func() *agent.Handler // made for the first request
}

// New returns the API of a System, which s serves. If s is nil, this process does not serve: the
// API has no status, and cannot reload the configuration.
func New(sys *system.System, s *server.Server) *API {
	api := &API{
		System: sys, server: s, mux: &operation.Mux{},
		runs: replays.NewRunner(sys), adoptions: adoptions.NewRunner(sys), responses: idempotency.New(replays.KeyAge, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { problem.Write(w, *replays.ErrOtherRequest()) })),
		slots: slots{byCaller: map[string]int{}},
	}
	api.huma = humago.NewWithPrefix(api.mux, Prefix, humaConfig())
	api.operations = operation.NewSet(api.huma, Prefix)
	operation.Implement(api.operations, Reload, api.reload)
	var console func() *url.URL
	if s != nil {
		console = s.Console
	}
	implement(api.operations, sys, api.handlers, console)
	adoptions.Implement(api.operations, api.adoptions)
	replays.Implement(api.operations, sys, api.runs)
	operation.Implement(api.operations, GetStatus, api.status)
	api.operations.Guard(approvals.Service{System: sys, Set: api.operations}.Ask)
	api.document = api.describe()
	api.agents = sync.OnceValue(func() *agent.Handler {
		return agent.New(agent.Config{Version: system.Version(), Operations: api.operations, API: api, Prefix: Prefix, Logger: sys.Logger()})
	})
	return api
}

// Local returns the operations of a System for calls in this process, without an API. Jobs are run by
// replays.ByWatcher, and an adoption in the call that starts it.
func Local(sys *system.System) *operation.Set {
	set := operation.NewLocal()
	implement(set, sys, func() pipeline.Config { return routes.Handlers(sys) }, nil)
	adoptions.Implement(set, adoptions.InCalls(sys))
	replays.Implement(set, sys, replays.ByWatcher{})
	return set
}

// implement adds the operations of all subjects to a set. console is as in alerts.Service.
func implement(set *operation.Set, sys *system.System, handlers func() pipeline.Config, console func() *url.URL) {
	operation.Implement(set, GetVersion, func(ctx context.Context, _ *struct{}) (*VersionOutput, error) {
		return version(ctx, sys.Settings()), nil
	})
	routes.Implement(set, routes.Service{System: sys, Handlers: handlers})
	deliveries.Implement(set, sys)
	subscriptions.Implement(set, sys)
	searches.Implement(set, sys)
	approvals.Implement(set, sys)
	alerts.Implement(set, alerts.Service{System: sys, Console: console})
	failures.Implement(set, sys)
	waiting.Implement(set, sys)
	quarantine.Implement(set, sys)
	subjects.Implement(set, sys)
	messages.Implement(set, sys, handlers)
	doctor.Implement(set, func(ctx context.Context) []doctor.Finding { return server.Diagnose(ctx, sys, handlers()) })
}

// handlers returns the handlers of the server.
func (a *API) handlers() pipeline.Config {
	if a.server == nil {
		return routes.Handlers(a.System)
	}
	return a.server.Handlers()
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

// Package server runs what serve runs: the handlers, the indexer, subscriptions and alerts,
// and http.listen with its metrics, the API and the console. It also prepares the servers for that.
package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/alerts"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/gctuning"
	"github.com/watershipmq/watership/internal/system/routeconfig"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/pipeline"
)

// Config adds to the configuration of a System.
type Config struct {
	Taps   []pipeline.Tap
	Routes []pipeline.Route

	// Reload reads the configuration again for Server.Reload. Nil: it cannot be reloaded.
	Reload func() (config.Config, error)

	// FreePort is whether http.listen may be another port, if its own is in use.
	FreePort bool
}

// Faces are the ways by which others use a running server. Those that are nil do not exist.
type Faces struct {
	// API serves the paths below /api/ on http.listen.
	API API

	// Pages serves the other paths of http.listen to browsers. Its files below /static/ need
	// no permission.
	Pages Pages

	// Run runs with the server, which stops when Run returns an error.
	Run func(ctx context.Context) error
}

// Pages are the pages for browsers, and the URL of their style sheet. Queries has the meaning of API.Queries.
type Pages interface {
	http.Handler
	Stylesheet() string
	Queries() []string
}

// API is an HTTP API. Run runs what its requests started until ctx ends.
type API interface {
	http.Handler
	access.Needs

	// Queries returns the patterns of requests with other methods than GET that viewers may send.
	Queries() []string

	Run(ctx context.Context) error
}

// New makes a Server of a System, which Run runs. Errors in the settings and in the files that
// they name are InputErrors.
func New(ctx context.Context, sys *system.System, cfg Config) (*Server, error) {
	s := &Server{
		System: sys, settings: sys.Settings(), more: routesAndTaps{cfg.Routes, cfg.Taps}, freePort: cfg.FreePort,
		registry: prometheus.NewRegistry(), audit: &auditor{System: sys}, started: time.Now(),
	}
	if err := Check(sys); err != nil {
		return nil, err
	}
	files, err := routeconfig.Read(s.settings.Routes, s.settings.Roles)
	if err != nil {
		return nil, system.InputError{Err: err}
	}
	s.reloads = &reloads{
		server: s, load: cfg.Reload, started: s.settings, loaded: s.settings, routes: routeconfig.State{Settings: s.settings, Files: files}, requests: make(chan chan<- reloadResult),
	}
	if s.alerts, err = (alerts.Service{System: sys}).Role(); err != nil {
		return nil, err
	}
	handlers := s.more.handlers(sys, s.settings, files)
	s.index.System, s.index.settings, s.index.registry, s.index.started = sys, s.settings, s.registry, s.started
	if s.has(role.Index) {
		if s.index.events, err = sys.Store(ctx); err != nil {
			return nil, err
		}
	}
	handlers.Registerer = s.registry
	if handlers.MeterProvider, err = sys.Exporters().ExportMetrics(ctx, s.registry, gatherer(s)); err != nil {
		return nil, err
	}
	s.config.Store(&handlers)
	if s.handlers, err = pipeline.New(handlers); err != nil {
		return nil, err
	}
	s.index.declared = s.handlers.Running()
	return s, nil
}

// Handlers returns the configuration of the handlers that run.
func (s *Server) Handlers() pipeline.Config { return *s.config.Load() }

// Run runs the configured roles in one process until ctx ends. With all of them:
//
//	publishers ─► exchange ─► route's queue ─► handler ─── ok ────────► `handled` event
//	                 │            ▲                │ error
//	                 │ tap        │                ├─ again ─► wait.<ms> ──► due ─┐
//	                 ▼            └── retry ◄──────┼──────────────────────────────┘
//	               index                           └─ never ─► poison ─► `poisoned` event
//	                 │                                                        │
//	                 └──────────► indexer ◄── log ◄── events ◄────────────────┘
//	                                 │
//	                                 ▼
//	                         the store
//
// pipeline has the handlers, indexer the rest; they share nothing but the broker.
func (s *Server) Run(ctx context.Context, faces Faces) (err error) {
	defer s.Embedded().CloseExternalAfter(ctx)()
	s.logExposures()
	guard, err := s.listen(faces)
	if err != nil {
		return errors.Join(err, s.closeHandlers(ctx))
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range s.parts(faces) {
		group.Go(func() error { return part(ctx) })
	}
	group.Go(func() error { return s.serveHTTP(ctx, faces, guard) })
	s.Logger().Info("serving", "broker", s.settings.AMQP.URL, "store", s.settings.Store.URL, "roles", s.settings.Roles,
		"routes", len(s.settings.Routes), "tapped", len(s.settings.Tap.Exchanges))
	err = group.Wait()
	s.Logger().Info("stopped")
	return err
}

// listen opens http.listen, and returns its guard.
func (s *Server) listen(faces Faces) (guard *access.Guard, err error) {
	if guard, err = s.newGuard(faces); err != nil {
		return nil, err
	}
	if s.tls, err = serverTLS(s.settings.HTTP.TLS, s.Logger()); err != nil {
		return nil, err
	}
	s.http, err = listen(s.settings.HTTP.Listen, s.freePort)
	return guard, err
}

// parts returns the functions that run until the context of Run ends.
func (s *Server) parts(faces Faces) []func(context.Context) error {
	parts := []func(context.Context) error{
		s.tuneGC, s.handle, s.reportLimits, s.watchPolicies, s.reloads.serve, s.measureSubscriptions, s.Embedded().WatchFolder, s.Embedded().WatchListeners,
	}
	if s.has(role.Index) {
		looked := make(chan struct{}) // at the queues of copies, before they are consumed
		parts = append(parts,
			func(ctx context.Context) error { return s.index.run(ctx, looked) },
			func(ctx context.Context) error {
				return s.index.watchOverflow(ctx, sync.OnceFunc(func() { close(looked) }))
			},
			s.index.applyRetention)
	}
	if s.has(role.Subscriptions) {
		parts = append(parts, s.runSubscriptions)
	}
	if s.alerts != nil {
		parts = append(parts, func(ctx context.Context) error { return s.alerts.Run(ctx, s) })
	}
	if faces.API != nil {
		parts = append(parts, faces.API.Run)
	}
	if faces.Run != nil {
		parts = append(parts, faces.Run)
	}
	return parts
}

// tuneGC gives the garbage collector the memory that serve may take.
func (s *Server) tuneGC(ctx context.Context) error {
	indexing := 0
	if s.has(role.Index) {
		indexing = s.settings.Index.Memory
	}
	gctuning.Follow(ctx, gctuning.ServeLimit(indexing))
	return nil
}

// routesAndTaps are routes and taps in addition to the configuration.
type routesAndTaps struct {
	routes []pipeline.Route
	taps   []pipeline.Tap
}

// handlers returns the pipeline of the roles, with the additional taps and routes.
func (m routesAndTaps) handlers(sys *system.System, settings config.Config, files routeconfig.Files) pipeline.Config {
	handlers := routes.HandlersWith(sys, settings, files)
	handlers.Tap = append(handlers.Tap, m.taps...)
	handlers.Routes = append(handlers.Routes, m.routes...)
	return withRoles(handlers, settings.Roles)
}

// have reports whether the route of a queue is an additional one.
func (m routesAndTaps) have(queue string) bool {
	return slices.ContainsFunc(m.routes, func(r pipeline.Route) bool { return r.Queue == queue })
}

// handle runs the handlers, unless setup has to run first.
func (s *Server) handle(ctx context.Context) error {
	if refused := s.checkFormerQueues(ctx); refused != nil {
		return errors.Join(refused, s.closeHandlers(ctx))
	}
	return s.handlers.Run(ctx)
}

// closeHandlers closes the connections of handlers that do not run.
func (s *Server) closeHandlers(ctx context.Context) error {
	ended, end := context.WithCancel(ctx)
	end()
	return s.handlers.Run(ended) // which closes them
}

// ignoreEnd drops an error after the end of ctx: being stopped is no failure.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

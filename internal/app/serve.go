package app

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/internal/access"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/gctuning"
	"github.com/watershipmq/watership/internal/overflow"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/role"
	"github.com/watershipmq/watership/internal/routeconfig"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

// Extension adds to the configuration of a server.
type Extension struct {
	Taps   []pipeline.Tap
	Routes []pipeline.Route

	// API serves the paths below /api/ on http.listen; nil: none.
	API API

	// Pages serves the other paths of http.listen to browsers; nil: nothing. Its files
	// below /static/ need no permission.
	Pages Pages

	// Reload reads the configuration again for App.Reload. Nil: it cannot be reloaded.
	Reload func() (config.Config, error)

	// FreePort is whether http.listen may be another port, if its own is in use.
	FreePort bool

	// Alerts runs the role alerts; nil: nothing.
	Alerts interface {
		AlertSettings
		Run(ctx context.Context, s *Server) error
	}

	// Run runs with the server, which stops when Run returns an error. Nil: nothing.
	Run func(ctx context.Context, s *Server) error
}

// AlertSettings are settings that a reload checks, and replaces if nothing else is wrong.
type AlertSettings interface {
	Check(settings config.Alerts) error
	Reload(settings config.Alerts) error
}

// Pages are the pages for browsers, and the URL of their style sheet.
type Pages interface {
	http.Handler
	Stylesheet() string
}

// API is an HTTP API. Run runs what its requests started until ctx ends.
type API interface {
	http.Handler
	access.Needs
	Run(ctx context.Context) error
}

// Serve runs the configured roles in one process until ctx ends. With all of them:
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
func (a *App) Serve(ctx context.Context, with Extension) error {
	defer a.embedded.CloseExternalAfter(ctx)()
	a.logExposures()
	s, err := a.newServer(ctx, with)
	if err != nil {
		return err
	}
	parts := []func(context.Context) error{
		s.tuneGC, s.handle, s.serveHTTP, s.reportLimits, s.watchPolicies, s.serveReloads, s.measureSubscriptions, a.embedded.WatchFolder, a.embedded.WatchListeners,
	}
	if s.has(role.Index) {
		parts = append(parts, s.index, s.watchOverflow, s.applyRetention)
	}
	if s.has(role.Subscriptions) {
		parts = append(parts, s.runSubscriptions)
	}
	if with.Alerts != nil {
		parts = append(parts, func(ctx context.Context) error { return with.Alerts.Run(ctx, s) })
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		group.Go(func() error { return part(ctx) })
	}
	if with.API != nil {
		group.Go(func() error { return with.API.Run(ctx) })
	}
	if with.Run != nil {
		group.Go(func() error { return with.Run(ctx, s) })
	}
	a.logger.Info("serving", "broker", a.settings.AMQP.URL, "store", a.settings.Store.URL, "roles", a.settings.Roles,
		"routes", len(a.settings.Routes), "tapped", len(a.settings.Tap.Exchanges))
	err = group.Wait()
	a.logger.Info("stopped")
	return err
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

func (a *App) newServer(ctx context.Context, with Extension) (_ *Server, err error) {
	s := &Server{App: a, more: routesAndTaps{with.Routes, with.Taps}, api: with.API, pages: with.Pages, registry: prometheus.NewRegistry(), started: time.Now()}
	files, err := routeconfig.Read(a.settings.Routes, a.settings.Roles)
	if err != nil {
		return nil, InputError{err}
	}
	s.reloading = reloading{
		load: with.Reload, alerts: with.Alerts, started: a.settings, loaded: a.settings, routes: routeconfig.State{Settings: a.settings, Files: files}, requests: make(chan chan<- reloadResult),
	}
	handlers := s.handlersWith(a.settings, files)
	if s.has(role.Index) {
		if s.events, err = a.Store(ctx); err != nil {
			return nil, err
		}
	}
	handlers.Registerer = s.registry
	s.config.Store(&handlers)
	if s.handlers, err = pipeline.New(handlers); err != nil {
		return nil, err
	}
	s.audit = &auditor{App: a}
	if s.guard, err = a.newGuard(s.audit, with); err != nil {
		return nil, err
	}
	if s.tls, err = a.serverTLS(); err != nil {
		return nil, err
	}
	s.http, err = listen(a.settings.HTTP.Listen, with.FreePort)
	a.server.Store(s)
	return s, err
}

// routesAndTaps are those of the extension, beside the ones of the configuration.
type routesAndTaps struct {
	routes []pipeline.Route
	taps   []pipeline.Tap
}

// handlersWith returns the pipeline of the roles, with the taps and routes of the extension.
func (s *Server) handlersWith(settings config.Config, files routeconfig.Files) pipeline.Config {
	handlers := s.pipelineWith(settings, files)
	handlers.Tap = append(handlers.Tap, s.more.taps...)
	handlers.Routes = append(handlers.Routes, s.more.routes...)
	return withRoles(handlers, settings.Roles)
}

// extends reports whether the route of a queue is one of the extension.
func (s *Server) extends(queue string) bool {
	return slices.ContainsFunc(s.more.routes, func(r pipeline.Route) bool { return r.Queue == queue })
}

// handle runs the handlers, unless setup has to run first.
func (s *Server) handle(ctx context.Context) error {
	refused := s.checkFormerQueues(ctx)
	if refused != nil {
		ended, end := context.WithCancel(ctx)
		end()
		ctx = ended // Run closes its connections
	}
	return errors.Join(refused, s.handlers.Run(ctx))
}

// watchOverflow records dropped copies until ctx ends, if copies may be dropped at all.
func (s *Server) watchOverflow(ctx context.Context) (err error) {
	if s.topology.IndexLimit == 0 {
		return nil
	}
	conn, err := s.open("recording gaps", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	publisher := rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	defer func() { err = errors.Join(err, publisher.Close()) }()
	management, err := s.Management()
	if err != nil {
		return err
	}
	watcher := overflow.Watcher{
		Topology: s.topology, VHost: s.vhost, Connection: conn, Publisher: publisher, Management: management,
		Logger: s.logger, Sign: s.Sign, Lag: s.indexLag, Registerer: s.registry,
	}
	return watcher.Run(ctx, s.handlers.Running())
}

// index runs the indexer once the topology is declared.
func (s *Server) index(ctx context.Context) (err error) {
	select {
	case <-s.handlers.Running():
	case <-ctx.Done():
		return nil
	}
	if err := s.installTemplates(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	consuming, err := s.open("indexing", true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, consuming.Close()) }()
	sending, err := s.open("setting aside", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sending.Close()) }()
	publisher := rabbit.NewPublisher(sending, rabbit.PublisherConfig{})
	defer func() { err = errors.Join(err, publisher.Close()) }()
	source, err := s.source(ctx, consuming)
	if err != nil {
		return ignoreEnd(ctx, err)
	}
	cfg := s.indexerConfig(source)
	cfg.Broker = rabbit.Consumer{Connection: consuming, Tag: role.NewConsumer(role.Index, "").Tag()}
	cfg.Publisher, cfg.Store, cfg.Registerer = rabbit.ExchangePublisher{Publisher: publisher}, s.events, s.registry
	x := indexer.New(cfg)
	s.indexing.Store(&indexing{x, []*rabbit.Connection{consuming, sending}})
	return x.Run(ctx)
}

func (a *App) indexerConfig(source string) indexer.Config {
	return indexer.Config{
		Classic: a.settings.Topology.QueueType == "classic" || a.topology.ClassicIndex,
		Logger:  a.storeLogger, Format: a.DocumentFormat(), Memory: a.settings.Index.Memory, Retention: a.retention(),
		Decoder: schemas.Decoder{
			Source: source, VHost: a.vhost, Topology: a.topology, Keys: a.secrets.StateKeys,
			Fingerprints: a.settings.Fingerprint, TimeHeaders: a.settings.Index.TimeHeaders, Streams: a.streams(),
		},
		Batch: indexer.Batch{
			Events: a.settings.Index.Batch.Events, Bytes: a.settings.Index.Batch.Bytes, Wait: a.settings.Index.Batch.Wait,
		},
	}
}

const installInterval = 2 * time.Second

// installTemplates waits for a store that is unavailable.
func (s *Server) installTemplates(ctx context.Context) error {
	for warned := false; ; warned = true {
		err := s.events.Install(ctx)
		var failed *eventstore.Error
		if err == nil || !errors.As(err, &failed) || failed.Kind == eventstore.BadRequest {
			return ignoreEnd(ctx, err)
		}
		if !warned {
			s.storeLogger.Warn("waiting for the store; messages stay in their queues", "store", s.settings.Store.URL, "error", err)
		}
		select {
		case <-time.After(installInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

const retainInterval = time.Minute

// applyRetention removes events older than the retention until ctx ends, or notes which ones the store
// has removed by itself.
func (s *Server) applyRetention(ctx context.Context) error {
	ticker := time.NewTicker(retainInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		if _, err := s.events.Retain(ctx); err != nil && ctx.Err() == nil {
			s.logger.Warn("removing old events failed; trying again", "error", err)
		}
	}
}

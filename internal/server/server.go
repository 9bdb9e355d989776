package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sync/singleflight"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/alerts"
	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/freeport"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/pipeline"
)

// Server runs the configured roles of a System in one process. On http.listen it answers
// whether it is alive and ready, and serves its metrics.
type Server struct {
	*system.System
	settings config.Config // of the start
	more     routesAndTaps
	freePort bool
	config   atomic.Pointer[pipeline.Config]
	registry *prometheus.Registry
	handlers *pipeline.Pipeline
	index    indexRole
	alerts   *alerts.Role // nil: another process has it
	http     net.Listener // nil: http.listen is off
	tls      *tls.Config  // of http.listen; nil: none
	audit    *auditor     // records for the guard of http.listen
	started  time.Time

	updateGauges atomic.Pointer[func()] // asks the servers for what a scrape needs; nil: http.listen is off

	*reloads
}

// Address returns the address of http.listen; nil if it is off.
func (s *Server) Address() net.Addr {
	if s.http == nil {
		return nil
	}
	return s.http.Addr()
}

// Console returns the address at which browsers find the console, with the port on which the server listens.
// It is nil if that is not known.
func (s *Server) Console() *url.URL {
	settings := s.settings.HTTP
	if s.http != nil {
		host, _, _ := net.SplitHostPort(settings.Listen) // the server listens there
		_, port, _ := net.SplitHostPort(s.http.Addr().String())
		settings.Listen = net.JoinHostPort(host, port)
	}
	return settings.Console()
}

// Registerer returns the registry of the metrics that http.listen serves.
func (s *Server) Registerer() prometheus.Registerer { return s.registry }

// serverTimeout bounds the requests to the servers for one HTTP request.
const serverTimeout = 3 * time.Second

// Bounds of http.listen: a client that sends or reads nothing, and any number of
// clients, take no file descriptors that handlers need. The guard admits 32 requests at a time.
const (
	listenConnections = 64
	listenEach        = 48 // of one address
	listenTimeout     = 5 * time.Second
	listenHeaderBytes = 128 << 10 // a query of 4,000 characters has up to 48,000 bytes in a URL
)

// newHTTPServer makes the HTTP server of http.listen. The guard gives the requests that it
// passes on more time.
func newHTTPServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, MaxHeaderBytes: listenHeaderBytes, ReadHeaderTimeout: listenTimeout,
		ReadTimeout: listenTimeout, WriteTimeout: listenTimeout, IdleTimeout: listenTimeout, ConnContext: withConnection,
	}
}

// listen opens http.listen; nil if it is off.
func listen(address string, freePort bool) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	open := func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	var listener net.Listener
	var err error
	if freePort {
		listener, err = freeport.Listen(address, open)
	} else {
		listener, err = open(address)
	}
	if err != nil {
		return nil, fmt.Errorf("http.listen %s: %w", address, err)
	}
	return &connections{Listener: listener, all: listenConnections, each: listenEach}, nil
}

// serveHTTP serves http.listen until ctx ends.
func (s *Server) serveHTTP(ctx context.Context, faces Faces, guard *access.Guard) (err error) {
	if s.http == nil {
		return nil
	}
	defer s.http.Close()
	watching, err := s.Open("watching", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, watching.Close()) }()
	s.audit.conn, s.audit.publisher = watching, rabbit.NewPublisher(watching, rabbit.PublisherConfig{})
	defer func() { err = errors.Join(s.audit.publisher.Close(), err) }()
	defer s.updateGauges.Store(nil)
	server := newHTTPServer(s.routes(newGauges(s, watching), faces, guard))
	server.ErrorLog = slog.NewLogLogger(s.Logger().Handler(), slog.LevelDebug) // of connections that fail
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	serve := server.Serve
	if s.tls != nil {
		server.TLSConfig = s.tls
		serve = func(l net.Listener) error { return server.ServeTLS(l, "", "") }
	}
	if err := serve(s.http); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving http.listen: %w", err)
	}
	return nil
}

// routes serves health checks and metrics to everybody, and everything else to whom the
// guard admits.
func (s *Server) routes(live *gauges, faces Faces, guard *access.Guard) http.Handler {
	// Exemplars are in OpenMetrics alone.
	metrics := promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{Timeout: serverTimeout, EnableOpenMetrics: s.Exporters() != nil})
	var updates singleflight.Group // several scrapes at once ask the servers once
	update := func() {
		_, _, _ = updates.Do("", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
			defer cancel()
			live.update(ctx)
			return nil, nil
		})
	}
	s.updateGauges.Store(&update)
	mux := http.NewServeMux()
	mux.Handle("GET /healthz", healthHandler(s.index.stalled, nil))
	mux.Handle("GET /readyz", healthHandler(s.Ready, s.describe))
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		update()
		metrics.ServeHTTP(w, r)
	})
	admitted := http.NewServeMux()
	if faces.API != nil {
		admitted.Handle("/api/", faces.API)
	}
	if faces.Pages != nil {
		admitted.Handle("/", faces.Pages)
		mux.Handle("GET /static/", faces.Pages)
	}
	mux.Handle("/", guard.Handler(keepConnection(admitted)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		access.SetHeaders(w.Header())
		if r.TLS != nil && s.settings.HTTP.TLS.HSTS { // browsers ignore it without TLS
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		mux.ServeHTTP(w, r)
	})
}

// gatherer returns the metrics of a server to a collector.
func gatherer(s *Server) prometheus.GathererFunc {
	return func() ([]*dto.MetricFamily, error) {
		if update := s.updateGauges.Load(); update != nil {
			(*update)()
		}
		return s.registry.Gather()
	}
}

// healthHandler responds with one line: ok, or the problem. After ok there may be more
// lines, about states that are no problem of serve. more may be nil. Requests at the same time
// share a check: its connections stay open, and so everybody may hold some until it answers.
func healthHandler(check func(context.Context) error, more func() []string) http.Handler {
	var checks singleflight.Group
	return keepConnection(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err, _ := checks.Do("", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.Background(), serverTimeout)
			defer cancel()
			return nil, check(ctx)
		})
		if err != nil {
			http.Error(w, wording.OneLine(err.Error()), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
		if more == nil {
			return
		}
		for _, line := range more() {
			fmt.Fprintln(w, wording.OneLine(line))
		}
	}))
}

// describe describes routes that are paused or stand by, and a reload that failed.
func (s *Server) describe() []string {
	var lines []string
	if r := s.latest.Load(); r != nil && r.Problem != "" {
		lines = append(lines, doctor.NotReloaded+r.Problem)
	}
	for _, route := range s.handlers.Routes() {
		if route.PausedByHand {
			lines = append(lines, fmt.Sprintf("the route of queue %s is paused by an operator", route.Queue))
		}
		if !route.Paused.IsZero() {
			lines = append(lines, fmt.Sprintf("the route of queue %s is paused since %s: %s", route.Queue, route.Paused.UTC().Format(time.RFC3339), route.Error))
		}
		if !route.Standby.IsZero() {
			lines = append(lines, fmt.Sprintf("%s%s since %s: another process handles its messages in order", doctor.StandsBy, route.Queue, route.Standby.UTC().Format(time.RFC3339)))
		}
	}
	return lines
}

// Ready returns an error unless all parts consume and the store takes documents.
func (s *Server) Ready(ctx context.Context) error {
	if err := s.brokerError(); err != nil {
		return err
	}
	if err := s.handlers.Held(); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	if err := s.handlers.Unconsumed(); err != nil {
		return err
	}
	if !s.has(role.Index) {
		return nil
	}
	return s.index.ready(ctx)
}

// brokerError returns an error unless every connection is open and the handlers
// consume.
func (s *Server) brokerError() error {
	lost := s.handlers.Err()
	if running := s.index.running.Load(); running != nil {
		for _, conn := range running.connections {
			if err := conn.Err(); err != nil && lost == nil {
				lost = err
			}
		}
	}
	if lost != nil {
		return fmt.Errorf("broker: %w", lost)
	}
	select {
	case <-s.handlers.Running():
		return nil
	default:
		return errors.New("the handlers do not consume yet")
	}
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/singleflight"

	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/internal/doctor"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/pipeline"
)

// vitals is a running serve with its answers on http.listen: whether it lives, whether
// it is ready, and its metrics.
type vitals struct {
	system
	registry *prometheus.Registry
	store    eventStore
	handlers *pipeline.Pipeline
	indexing atomic.Pointer[indexing] // nil until it begins
	http     net.Listener             // nil: http.listen is off
	begun    time.Time
}

// indexing is a running indexer and the connections that it uses.
type indexing struct {
	*indexer.Indexer
	connections []*rabbit.Connection
}

// vitalsTimeout bounds the requests to the servers for one HTTP request.
const vitalsTimeout = 3 * time.Second

// Bounds of http.listen: a client that sends or reads nothing, and any number of
// clients, take no file descriptors that handlers need.
const (
	listenConnections = 64 // more wait until one ends
	listenTimeout     = 5 * time.Second
	listenHeaderBytes = 16 << 10
)

// newListenServer makes the HTTP server of http.listen.
func newListenServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, MaxHeaderBytes: listenHeaderBytes,
		ReadTimeout: listenTimeout, WriteTimeout: listenTimeout, IdleTimeout: listenTimeout,
	}
}

// listen opens http.listen; nil if it is off.
func listen(address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("http.listen %s: %w", address, err)
	}
	return netutil.LimitListener(listener, listenConnections), nil
}

// answer serves http.listen until ctx ends.
func (v *vitals) answer(ctx context.Context) (err error) {
	if v.http == nil {
		return nil
	}
	defer v.http.Close()
	watching, err := v.connect("watching", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, watching.Close()) }()
	server := newListenServer(v.routes(newGauges(v, watching)))
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(v.http); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving health checks and metrics: %w", err)
	}
	return nil
}

func (v *vitals) routes(live *gauges) http.Handler {
	metrics := promhttp.HandlerFor(v.registry, promhttp.HandlerOpts{Timeout: vitalsTimeout})
	var looking singleflight.Group // several scrapes at once ask the servers once
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", answering(v.stuck, nil))
	mux.HandleFunc("GET /readyz", answering(v.ready, v.paused))
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		_, _, _ = looking.Do("", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), vitalsTimeout)
			defer cancel()
			live.look(ctx)
			return nil, nil
		})
		metrics.ServeHTTP(w, r)
	})
	return mux
}

// answering responds with one line: ok, or the problem. After ok there may be more
// lines, about states that are no problem of serve. more may be nil.
func answering(problem func(context.Context) error, more func() []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), vitalsTimeout)
		defer cancel()
		if err := problem(ctx); err != nil {
			http.Error(w, terminal.Cell(err.Error(), 0), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
		if more == nil {
			return
		}
		for _, line := range more() {
			fmt.Fprintln(w, terminal.Cell(line, 0))
		}
	}
}

// paused describes the routes whose breaker is open.
func (v *vitals) paused() []string {
	var lines []string
	for _, route := range v.handlers.Routes() {
		if !route.Paused.IsZero() {
			lines = append(lines, fmt.Sprintf("the route of queue %s is paused since %s: %s", route.Queue, route.Paused.UTC().Format(time.RFC3339), route.Error))
		}
	}
	return lines
}

// stuck returns an error that only a new process can end. A server that is away is
// none.
func (v *vitals) stuck(context.Context) error {
	if running := v.indexing.Load(); running != nil {
		return running.Stalled()
	}
	return nil
}

// ready returns an error unless all parts consume and the store takes documents.
func (v *vitals) ready(ctx context.Context) error {
	if err := v.brokerThere(); err != nil {
		return err
	}
	if err := v.handlers.Held(); err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	if err := v.store.Check(ctx); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := doctor.IndexHealth(ctx, v.store); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	running := v.indexing.Load()
	if running == nil {
		return errors.New("the indexer does not consume yet")
	}
	if err := running.StoreError(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// brokerThere returns an error unless every connection is open and the handlers
// consume.
func (v *vitals) brokerThere() error {
	lost := v.handlers.Err()
	if running := v.indexing.Load(); running != nil {
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
	case <-v.handlers.Running():
		return nil
	default:
		return errors.New("the handlers do not consume yet")
	}
}

// behind returns the indexer's lag, or the time since the start if the indexer could
// not begin yet.
func (v *vitals) behind(queue string, waiting int) time.Duration {
	if running := v.indexing.Load(); running != nil {
		return running.Lag(queue, waiting)
	}
	if waiting == 0 {
		return 0
	}
	return time.Since(v.begun)
}

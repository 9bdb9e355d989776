package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/elastic"
)

const healthTimeout = 5 * time.Second

// listen answers health checks until ctx ends. /healthz says that the process
// lives; /readyz that every handler consumes and the store takes documents.
func (s system) listen(ctx context.Context, store *elastic.Store, consuming <-chan struct{}) error {
	if s.cfg.HTTP.Listen == "" {
		return nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-consuming:
		default:
			http.Error(w, "the handlers do not consume yet", http.StatusServiceUnavailable)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), healthTimeout)
		defer cancel()
		if err := store.Check(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	listener, err := net.Listen("tcp", s.cfg.HTTP.Listen)
	if err != nil {
		return fmt.Errorf("http.listen %s: %w", s.cfg.HTTP.Listen, err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: healthTimeout}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving health checks: %w", err)
	}
	return nil
}

func newHealthcheck(from *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck",
		Short: "Ask a running serve whether it lives, for container health checks",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := from.load()
			if err != nil {
				return err
			}
			if cfg.HTTP.Listen == "" {
				return usagef("http.listen is not set, so serve answers no health checks")
			}
			return checkHealth(cmd.Context(), cfg.HTTP.Listen)
		},
	}
}

func checkHealth(ctx context.Context, listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return usagef("http.listen %s: %w", listen, err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/healthz", nil)
	if err != nil {
		return fmt.Errorf("making a health check: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("serve does not answer: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1024))
		return fmt.Errorf("serve answered %s: %s", response.Status, text)
	}
	return nil
}

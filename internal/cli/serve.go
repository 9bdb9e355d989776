package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/console"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/server"
	"github.com/watershipmq/watership/internal/system"
)

func newServe(from *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Run the pipeline and the indexer until SIGTERM",
		Long: `Declare the topology, tap the exchanges, run the routes with their retry and poison
handlers, and index every event. serve waits for servers that are unavailable.

On SIGTERM or SIGINT it stops consuming, waits for running handlers, requeues the
remaining messages and exits with 0. On SIGHUP it reloads its configuration, as
"watership reload" does.`,
		Example: "  watership serve --config watership.yaml",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			hangups := hangupsOf(cmd.Context())
			cfg, err := from.loadOwn()
			if err != nil {
				return err
			}
			logger := newLogger(streamsOf(cmd), cfg.Log)
			a, err := system.Start(cmd.Context(), system.Config{Settings: cfg, Name: "serve", Logger: logger, Programs: programsOf(cmd.Context())})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, a.Close()) }()
			s, err := server.New(cmd.Context(), a, server.Config{Reload: from.loadOwn})
			if err != nil {
				return err
			}
			err = serve(cmd.Context(), s, func(ctx context.Context) error { return reloadOn(ctx, hangups, s) })
			if loss := lossText(a.Loss()); loss != "" {
				logger.Warn(loss)
			}
			return err
		},
	}
}

// serve runs a server with the API and the console, and a function with it.
func serve(ctx context.Context, s *server.Server, run func(context.Context) error) error {
	served, settings := httpapi.New(s.System, s), s.Settings()
	pages, err := console.New(console.Config{
		API: served, Version: system.Version(), Stream: settings.Store.Stream, Logger: s.Logger(),
		Kibana: addressOf(settings.Kibana.URL), Trace: settings.Traces.Page, Server: addressOf(settings.HTTP.URL),
	})
	if err != nil {
		return err
	}
	return s.Run(ctx, server.Faces{API: served, Pages: pages, Run: run})
}

// addressOf returns a URL of the configuration; nil if it has none.
func addressOf(u config.URL) *url.URL {
	if u.IsZero() {
		return nil
	}
	parsed, _ := url.Parse(u.Reveal()) // the configuration was checked
	return parsed
}

// lossText describes the messages that are lost when the embedded broker ends; "" if
// none are lost.
func lossText(messages, unrecorded int) string {
	switch text := "lost with the in-memory broker: " + wording.Plural(messages, "message") + " in its queues, "; {
	case messages == 0:
		return ""
	case unrecorded == 0:
		return text + "all recorded"
	default:
		return fmt.Sprintf("%s%d of them not recorded yet", text, unrecorded)
	}
}

func newHealthcheck(from *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck",
		Short: "Check the health of a running server",
		Args:  exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := from.load()
			if err != nil {
				return err
			}
			if cfg.HTTP.Listen == "" {
				return usagef("http.listen is not set, so serve answers no health checks")
			}
			return server.CheckHealth(cmd.Context(), cfg.HTTP)
		},
	}
}

package cli

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/alerts"
	"github.com/watershipmq/watership/internal/api"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/console"
	"github.com/watershipmq/watership/internal/wording"
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
			cfg, err := from.loadOwn()
			if err != nil {
				return err
			}
			logger := newLogger(streamsOf(cmd), cfg.Log)
			a, err := app.Start(cmd.Context(), app.Config{Settings: cfg, Name: "serve", Logger: logger, Programs: programsOf(cmd.Context())})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, a.Close()) }()
			with, err := extension(a)
			if err != nil {
				return err
			}
			with.Reload, with.Run = from.loadOwn, reloadOnHangups
			err = a.Serve(cmd.Context(), with)
			if loss := lossText(a); loss != "" {
				logger.Warn(loss)
			}
			return err
		},
	}
}

// extension returns the API, the console and the alerts of an App.
func extension(a *app.App) (app.Extension, error) {
	served := api.New(a)
	settings := a.Settings()
	pages, err := console.New(console.Config{
		API: served, Version: app.Version(), Stream: settings.Store.Stream, Logger: a.Logger(),
		Kibana: addressOf(settings.Kibana.URL), Server: addressOf(settings.HTTP.URL),
	})
	if err != nil {
		return app.Extension{}, err
	}
	with := app.Extension{API: served, Pages: pages}
	role, err := alerts.Service{App: a}.Role()
	if role != nil {
		with.Alerts = role
	}
	return with, err
}

// addressOf returns a URL of the configuration; nil if it has none.
func addressOf(u config.URL) *url.URL {
	if u.IsZero() {
		return nil
	}
	parsed, _ := url.Parse(u.Reveal()) // the configuration was checked
	return parsed
}

// lossText describes the messages that are lost when the embedded broker ends; "" if there
// are none.
func lossText(a *app.App) string {
	messages, unrecorded := a.Loss()
	if messages == 0 {
		return ""
	}
	return fmt.Sprintf("lost with the in-memory broker: %s in its queues, %d of them not recorded yet", wording.Plural(messages, "message"), unrecorded)
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
			return app.CheckHealth(cmd.Context(), cfg.HTTP)
		},
	}
}

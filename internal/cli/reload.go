package cli

import (
	"context"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/server"
)

type hangupsKey struct{}

// ContextWithHangups returns the context for a Run whose serve reloads its configuration on each
// signal of the channel that listen returns. serve calls listen as it begins to start: from then
// until the process ends, SIGHUP does not end it. Other commands do not call it.
func ContextWithHangups(ctx context.Context, listen func() <-chan os.Signal) context.Context {
	return context.WithValue(ctx, hangupsKey{}, listen)
}

// hangupsOf returns the channel of the context; nil if it has none.
func hangupsOf(ctx context.Context) <-chan os.Signal {
	listen, given := ctx.Value(hangupsKey{}).(func() <-chan os.Signal)
	if !given {
		return nil
	}
	return listen()
}

// reloadOn reloads the configuration of a running server on each hangup until ctx ends.
func reloadOn(ctx context.Context, hangups <-chan os.Signal, s *server.Server) error {
	for {
		select {
		case <-hangups:
			_, _ = s.Reload(ctx) // it is logged
		case <-ctx.Done():
			return nil
		}
	}
}

func newReload(from *settings) *cobra.Command {
	var format outputFormat
	cmd := &cobra.Command{
		Use:   "reload",
		Short: "Reload the configuration of a running server",
		Long: `Let the server of --server read its configuration again, as SIGHUP does: routes,
retry policies and alerts take effect, with the files that routes name. Routes that change
finish the messages in flight first, and no others are interrupted. Settings that need a
restart are listed. If anything is wrong, everything stays as it is.

Each process of a system reads its own configuration: reload each.`,
		Example: "  watership reload --server https://watership.example.com --token-file token",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				if _, isLocal := sys.(*local); isLocal {
					return usagef("reload asks a running serve by its API: give --server, or send SIGHUP to it")
				}
				reloaded, err := httpapi.Reload.Call(ctx, sys, httpapi.ReloadInput{})
				if err != nil {
					return err
				}
				r := reloaded.Body
				to := from.printer(cmd)
				if format.is("json") {
					return terminal.WriteJSON(to.Out, r)
				}
				return to.reloaded(r)
			})
		},
	}
	format.addFlag(cmd, "text", "json")
	return cmd
}

func (p printer) reloaded(r server.Reloaded) error {
	text := "reloaded: nothing has changed"
	switch {
	case !r.Routes.IsEmpty():
		text = "reloaded:"
	case len(r.Changed) > 0:
		text = "reloaded: " + strings.Join(r.Changed, ", ")
	}
	for _, changes := range []struct {
		name   string
		queues []string
	}{{"added", r.Routes.Added}, {"changed", r.Routes.Changed}, {"removed", r.Routes.Removed}} {
		if len(changes.queues) > 0 {
			text += "\n" + wording.Plural(len(changes.queues), "route") + " " + changes.name
		}
		for _, queue := range changes.queues {
			text += "\n  " + terminal.Cell(queue, 255)
		}
	}
	if len(r.Restart) > 0 {
		text += "\nneed a restart to take effect: " + strings.Join(r.Restart, ", ")
	}
	return p.printf("%s", text)
}

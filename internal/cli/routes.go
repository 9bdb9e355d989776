package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/internal/wording"
)

func newRoutes(from *settings) *cobra.Command {
	var format outputFormat
	cmd := &cobra.Command{
		Use:   "routes",
		Short: "List routes, their queue lengths and which are paused",
		Long: `List the configured routes, and routes of other services that are paused. A route is
paused during an outage of its service, when all its messages fail. It then tries
single messages until one succeeds.`,
		Example: "  watership routes\n  watership routes -o json",
		Args:    exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys system) error {
				states, err := sys.RouteStates(ctx)
				if err != nil {
					return err
				}
				to := printer{streamsOf(cmd), from.screen(cmd.OutOrStdout())}
				return writeItems(to.Out, format, states, func() error { return to.routes(states) })
			})
		},
	}
	format.addFlag(cmd, "table", "json")
	return cmd
}

func (p printer) routes(states []app.RouteState) error {
	if len(states) == 0 {
		return p.printf("the configuration has no routes, and none of another service is paused")
	}
	t := terminal.NewTable(p.Out, p.screen,
		terminal.Column{Title: "QUEUE"}, terminal.Column{Title: "STATE", Fixed: true, Colours: map[string]terminal.Colour{"paused": terminal.Red, "no consumer": terminal.Yellow, "no queue": terminal.Red, "running": terminal.Green}},
		terminal.Column{Title: "MESSAGES", Fixed: true, Right: true}, terminal.Column{Title: "CONSUMERS", Fixed: true, Right: true, DropOrder: 1},
		terminal.Column{Title: "SINCE", Fixed: true}, terminal.Column{Title: "ERROR", DropOrder: 2})
	for _, r := range states {
		since := ""
		if r.Since != nil {
			since = wording.Time(*r.Since)
		}
		if err := t.Row(r.Queue, r.State, fmt.Sprint(r.Messages), fmt.Sprint(r.Consumers), since, r.Error); err != nil {
			return err
		}
	}
	return t.Flush()
}

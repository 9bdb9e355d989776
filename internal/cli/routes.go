package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/routestate"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/internal/wording"
)

func newRoutes(from *settings) *cobra.Command {
	var format outputFormat
	cmd := &cobra.Command{
		Use:     "routes",
		Aliases: []string{"route"},
		Short:   "List routes, their queue lengths and which are paused",
		Long: `List the configured routes, then those of other services, which RabbitMQ's management
API shows. A route is paused during an outage of its service, when all its messages fail.
It then tries single messages until one succeeds. An operator can pause a route, too:
until it is resumed it handles nothing.`,
		Example: `  watership routes
  watership routes -o json
  watership routes pause orders --reason 'the database moves'
  watership routes resume orders
  watership routes add invoices --dry-run`,
		Args: exactArgs(0, "no arguments"),
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
	cmd.AddCommand(newPause(from), newResume(from), newRouteAdd(from), newRouteRemove(from))
	return cmd
}

func newPause(from *settings) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "pause QUEUE",
		Short: "Pause the route of a queue in every process",
		Long: `Pause a route: every process that handles it finishes the messages that its handlers
have, and takes no more within seconds. Messages wait in the queue. The route stays
paused over restarts, until it is resumed. An event has the operator and the reason.`,
		Example: "  watership routes pause orders --reason 'the database moves'",
		Args:    exactArgs(1, "the queue of the route"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usagef("--reason is required")
			}
			return from.withSystem(cmd, func(ctx context.Context, sys system) error {
				if err := sys.PauseRoute(ctx, args[0], reason); err != nil {
					return err
				}
				return printer{streamsOf(cmd), from.screen(cmd.OutOrStdout())}.printf("the route of queue %s is paused", terminal.Cell(args[0], 255))
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why (required)")
	return cmd
}

func newResume(from *settings) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:     "resume QUEUE",
		Short:   "Resume the route of a queue that an operator has paused",
		Example: "  watership routes resume orders",
		Args:    exactArgs(1, "the queue of the route"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys system) error {
				if err := sys.ResumeRoute(ctx, args[0], reason); err != nil {
					return err
				}
				return printer{streamsOf(cmd), from.screen(cmd.OutOrStdout())}.printf("the route of queue %s is no longer paused by hand", terminal.Cell(args[0], 255))
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

func (p printer) routes(states []routestate.State) error {
	if len(states) == 0 {
		return p.printf("the configuration has no routes, and no other service has any")
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

package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/operation"
)

func newRoutes(from *settings) *cobra.Command {
	var format outputFormat
	cmd := &cobra.Command{
		Use:     "routes",
		Aliases: []string{"route"},
		Short:   "List routes, their queue lengths and which are paused",
		Long: `List the configured routes, then those of other services and of "routes add", which
RabbitMQ's management API shows. A route is paused during an outage of its service, when all
its messages fail. It then tries single messages until one succeeds. An operator can pause a
route, too: until it is resumed it handles nothing.`,
		Example: `  watership routes
  watership routes -o json
  watership routes pause orders --reason 'the database moves'
  watership routes resume orders
  watership routes pause --all --drain --reason 'RabbitMQ is upgraded'
  watership routes add invoices --dry-run`,
		Args: exactArgs(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				states, err := routeStates(ctx, sys)
				if err != nil {
					return err
				}
				to := from.printer(cmd)
				return writeItems(to.Out, format, states, func() error { return to.routes(states) })
			})
		},
	}
	format.addFlag(cmd, "table", "json")
	cmd.AddCommand(newPause(from), newResume(from), newRouteAdd(from), newRouteRemove(from))
	return cmd
}

// routeStates returns the states of routes. An error of the store leaves them as RabbitMQ has them.
func routeStates(ctx context.Context, sys operation.Via) ([]routes.RouteState, error) {
	found, err := routes.ListRoutes.Call(ctx, sys, routes.RoutesInput{})
	if err == nil && found.Body.Problem != "" {
		err = errors.New(found.Body.Problem)
	}
	return found.Body.Routes, err
}

func (p printer) routes(states []routes.RouteState) error {
	if len(states) == 0 {
		return p.printf("the configuration has no routes, and no other service has any")
	}
	t := terminal.NewTable(p.Out, p.screen,
		terminal.Column{Title: "QUEUE"}, terminal.Column{Title: "STATE", Fixed: true, Colours: map[string]terminal.Colour{"paused": terminal.Red, "no consumer": terminal.Yellow, "no queue": terminal.Red, "running": terminal.Green}},
		terminal.Column{Title: "MESSAGES", Fixed: true, Right: true}, terminal.Column{Title: "CONSUMERS", Fixed: true, Right: true, DropOrder: 1},
		terminal.Column{Title: "SINCE", Fixed: true, Times: true}, terminal.Column{Title: "ERROR", DropOrder: 2})
	for _, r := range states {
		since := ""
		if r.Since != nil {
			since = terminal.TimeCell(*r.Since)
		}
		if err := t.Row(r.Queue, r.State, fmt.Sprint(r.Messages), fmt.Sprint(r.Consumers), since, r.Error); err != nil {
			return err
		}
	}
	return t.Flush()
}

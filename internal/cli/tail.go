package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/schemas"
)

func newTail(from *settings) *cobra.Command {
	var lines int
	var fields []string
	var format outputFormat
	cmd := &cobra.Command{
		Use:   "tail [QUERY]",
		Short: "Follow new events until Ctrl-C",
		Long: `Print every new event that matches a query, once, as soon as the store makes it
visible. Events that become visible together are printed in order.`,
		Example: `  watership tail 'action: poisoned'
  watership tail -n 20 'headers.tenant: acme' -o ndjson`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines < 0 {
				return usagef("--lines %d: expected 0 or more", lines)
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				node, err := sys.ParseQuery(strings.Join(args, " "))
				if err != nil {
					return err
				}
				columns := usualFields()
				if len(fields) > 0 {
					if columns, err = fieldsNamed(sys, fields); err != nil {
						return err
					}
				}
				to := from.printer(cmd)
				sel := eventstore.Selection{Query: node, WithoutBody: format.is("table") && !needsBody(columns)}
				if err := to.checkBodies(ctx, sys, columns, sel); err != nil {
					return err
				}
				return sys.Follow(ctx, sel, lines, &follower{printer: to, eventWriter: newEventWriter(sys, to, format, columns, len(fields) > 0)})
			})
		},
	}
	cmd.Flags().IntVarP(&lines, "lines", "n", 0, "start with this many earlier events")
	cmd.Flags().StringSliceVar(&fields, "fields", nil, "columns to print")
	format.addFlag(cmd, "table", "ndjson")
	return cmd
}

// follower prints the events and the problems of history.Follow.
type follower struct {
	printer
	eventWriter
	begun bool // an event was received
}

func (f *follower) Receive(e schemas.Event) error {
	f.begun = true
	return f.event(e)
}

// Flush prints nothing before the first events, which decide how wide the columns are.
func (f *follower) Flush() error {
	if !f.begun {
		return nil
	}
	return f.end()
}

func (f *follower) Unreadable(err error) { f.Warn("%v", err) }

func (f *follower) Unavailable(err error) {
	var server *client.Error
	if errors.As(err, &server) {
		f.Warn("waiting: %v", err)
		return
	}
	f.Warn("waiting for the store: %v", err)
}

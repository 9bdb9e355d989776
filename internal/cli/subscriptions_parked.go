package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/subscriptions"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/render/wording"
)

func newSubscriptionsParked(from *settings) *cobra.Command {
	var format outputFormat
	var again, drop bool
	var a action
	cmd := &cobra.Command{
		Use:   "parked NAME [POSITION...]",
		Short: "List parked messages, deliver them again, or drop them",
		Long: `List the messages that a subscription could not deliver. With --retry they are
delivered again, and with --drop they are removed from the list: those at the
positions, or all. The messages themselves stay in the store: see them with
'watership show'.`,
		Example: `  watership subscriptions parked billing
  watership subscriptions parked billing --retry
  watership subscriptions parked billing 1764000000000000:shop:v1:ab --drop --yes`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if again && drop || len(args) > 1 && !again && !drop {
				return usagef("expected --retry or --drop")
			}
			if a.yes && !drop {
				return usagef("--yes is for --drop")
			}
			if a.Streams = streamsOf(cmd); drop && !a.yes && !terminal.IsTerminal(a.In) {
				return usagef("subscriptions parked --drop asks first, and there is no terminal to ask: give --yes")
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				to := subscriptionPrinter{from.printer(cmd)}
				named := subscriptions.NameInput{Name: args[0]}
				in := subscriptions.PositionsInput{NameInput: named}
				in.Body.Positions = args[1:]
				switch {
				case drop:
					return a.dropParked(ctx, sys, in)
				case again:
					changed, err := subscriptions.RetryParked.Call(ctx, sys, in)
					if err != nil {
						return err
					}
					return to.printf("%s will be delivered again", wording.Plural(changed.Body.Changed, "message"))
				}
				found, err := subscriptions.ListParked.Call(ctx, sys, named)
				if err != nil {
					return err
				}
				list := found.Body.Parked
				return writeItems(to.Out, format, list, func() error { return to.parked(list) })
			})
		},
	}
	cmd.Flags().BoolVar(&again, "retry", false, "deliver the messages again")
	cmd.Flags().BoolVar(&drop, "drop", false, "remove the messages from the list")
	a.addYes(cmd)
	format.addFlag(cmd, "table", "json", "ndjson")
	return cmd
}

// dropParked drops the messages at the positions of in; none: those that were parked when it asked.
func (a *action) dropParked(ctx context.Context, sys operation.Via, in subscriptions.PositionsInput) error {
	asked, shown := in.Body.Positions, []string(nil)
	return a.run(ctx, flow{
		preview: func(ctx context.Context) (_ found, err error) {
			if shown, err = parkedAt(ctx, sys, in.NameInput); err != nil {
				return found{}, err
			}
			if len(asked) > 0 {
				shown = asked
			}
			if len(shown) == 0 {
				return found{text: "nothing is parked\n"}, nil
			}
			return found{number: len(shown), question: fmt.Sprintf("Drop %s from the list?", wording.Plural(len(shown), "parked message"))}, nil
		},
		change: func(ctx context.Context) (string, any, error) {
			positions := asked
			if len(asked) == 0 {
				now, err := parkedAt(ctx, sys, in.NameInput)
				if err != nil {
					return "", nil, err
				}
				positions = slices.DeleteFunc(now, func(position string) bool { return !slices.Contains(shown, position) })
			}
			dropped := 0
			for some := range slices.Chunk(positions, maxPositions) {
				in.Body.Positions = some
				changed, err := subscriptions.DropParked.Call(ctx, sys, in)
				if dropped += changed.Body.Changed; err != nil {
					return "", nil, fmt.Errorf("dropped %s: %w", wording.Plural(dropped, "message"), err)
				}
			}
			return fmt.Sprintf("dropped %s\n", wording.Plural(dropped, "message")), nil, nil
		},
	})
}

// maxPositions is the number of positions that one request takes.
const maxPositions = 1000

// parkedAt returns the positions of the messages that a subscription has parked.
func parkedAt(ctx context.Context, sys operation.Via, name subscriptions.NameInput) ([]string, error) {
	list, err := subscriptions.ListParked.Call(ctx, sys, name)
	var positions []string
	for _, message := range list.Body.Parked {
		positions = append(positions, message.Position)
	}
	return positions, err
}

func (p subscriptionPrinter) parked(list []subscriptions.ParkedMessage) error {
	if len(list) == 0 {
		return p.printf("nothing is parked")
	}
	t := terminal.NewTable(p.Out, p.screen, terminal.Column{Title: "TIME", Fixed: true, Times: true}, terminal.Column{Title: "ACTION", DropOrder: 2},
		terminal.Column{Title: "MESSAGE", DropOrder: 1}, terminal.Column{Title: "ERROR"}, terminal.Column{Title: "POSITION", Fixed: true})
	for _, m := range list {
		if err := t.Row(terminal.TimeCell(m.Time), m.Action, m.MessageID, m.Cause.Text(m.Error), m.Position); err != nil {
			return err
		}
	}
	return t.Flush()
}

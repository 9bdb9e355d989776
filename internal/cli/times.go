package cli

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/render/wording"
)

func newTimes(from *settings) *cobra.Command {
	var asked filter
	var limit int
	var format outputFormat
	cmd := &cobra.Command{
		Use:   "times [QUERY]",
		Short: "Show how long messages wait in queues and take to be handled",
		Long: `Show percentiles of the times of work of queues, of all attempts that match:

  in queue   from when the message was sent to its queue until the attempt
  handler    the attempt
  total      from the publish until the message was handled

Attempts whose time is not known are left out, and KNOWN says how many are left.
docs/record.md says what is needed for each time.`,
		Example: `  watership times --since 1h
  watership times 'queue: orders and headers.tenant: acme' --from 2026-05-04T03:00 --to 2026-05-04T04:00
  watership times --since 7d -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > 1000 {
				return usagef("--limit %d: expected a number from 1 to 1000", limit)
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				node, err := asked.node(sys, strings.Join(args, " "), cmd.InOrStdin())
				if err != nil {
					return err
				}
				found, err := messages.ListTimes.Call(ctx, sys, messages.TimesInput{QueryFilter: queryFilter(node), Limit: limit})
				if err != nil {
					return err
				}
				to := from.printer(cmd)
				return writeItems(to.Out, format, found.Body.Queues, func() error { return to.times(found.Body) })
			})
		},
	}
	asked.addFlags(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "maximum number of queues, those with most attempts first")
	format.addFlag(cmd, "table", "json", "ndjson")
	return cmd
}

func (p printer) times(found messages.Times) error {
	if len(found.Queues) == 0 {
		return p.printf("nothing found")
	}
	number := func(title string) terminal.Column {
		return terminal.Column{Title: title, Fixed: true, Right: true}
	}
	t := terminal.NewTable(p.Out, p.screen, terminal.Column{Title: "QUEUE"}, terminal.Column{Title: "TIME", Fixed: true},
		number("P50"), number("P95"), number("P99"), number("MAX"), number("KNOWN"))
	for _, q := range found.Queues {
		for _, time := range []struct {
			name string
			messages.Percentiles
		}{{"in queue", q.InQueue}, {"handler", q.Handler}, {"total", q.Total}} {
			row := []string{q.Queue, time.name, "", "", "", "", strconv.FormatInt(time.Count, 10)}
			if time.Count > 0 {
				row[2], row[3], row[4], row[5] = secondsText(time.P50), secondsText(time.P95), secondsText(time.P99), secondsText(time.Max)
			}
			if err := t.Row(row...); err != nil {
				return err
			}
		}
	}
	if err := t.Flush(); err != nil || found.Others == 0 {
		return err
	}
	return p.printf("%s at other queues", wording.Plural(int(found.Others), "attempt"))
}

func secondsText(seconds float64) string {
	return shortDuration(time.Duration(seconds * float64(time.Second)))
}

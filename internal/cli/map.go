package cli

import (
	"context"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/render/wording"
)

func newMap(from *settings) *cobra.Command {
	var asked filter
	var limit int
	var format outputFormat
	cmd := &cobra.Command{
		Use:   "map [QUERY]",
		Short: "Show which services publish to which exchanges and handle which queues",
		Long: `Show the ways of messages as they were recorded: from publishers to exchanges, queues
and services, with the rate of messages, failures and the 95th percentile of a time:
from publish to handled at a queue, and of an attempt at a service.

A publisher is known by the property app_id, and the service of a queue by the app_id
of what its handler publishes. FAILED counts the messages that a queue has given up,
and the attempts of a service that failed.`,
		Example: `  watership map --since 1h
  watership map 'headers.tenant: acme' --from 2026-05-04T03:00 --to 2026-05-04T04:00
  watership map --since 7d -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 || limit > 1000 {
				return usagef("--limit %d: expected a number from 1 to 1000", limit)
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				in, err := asked.ofMap(sys, strings.Join(args, " "), cmd.InOrStdin())
				if err != nil {
					return err
				}
				in.Limit = limit
				found, err := messages.GetServiceMap.Call(ctx, sys, in)
				if err != nil {
					return err
				}
				to := from.printer(cmd)
				if format.is("json") {
					return terminal.WriteIndentedJSON(to.Out, found.Body)
				}
				return to.serviceMap(found.Body)
			})
		},
	}
	asked.addFlags(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 100, "maximum number of ways, those with most messages first")
	format.addFlag(cmd, "table", "json")
	return cmd
}

// ofMap returns the input of a map, with the period apart from the query, since rates need its length.
func (q *filter) ofMap(lang language, text string, in io.Reader) (messages.MapInput, error) {
	node, err := q.node(lang, text, in)
	if err != nil {
		return messages.MapInput{}, err
	}
	asked := messages.MapInput{QueryFilter: queryFilter(node)}
	begin, end, err := q.period.Bounds()
	if !begin.IsZero() {
		asked.From = begin.Format(time.RFC3339Nano)
	}
	if !end.IsZero() {
		asked.To = end.Format(time.RFC3339Nano)
	}
	return asked, err
}

func (p printer) serviceMap(found messages.ServiceMap) error {
	if len(found.Edges) == 0 {
		return p.printf("nothing found")
	}
	number := func(title string) terminal.Column {
		return terminal.Column{Title: title, Fixed: true, Right: true}
	}
	t := terminal.NewTable(p.Out, p.screen, terminal.Column{Title: "FROM"}, terminal.Column{Title: "TO"}, number("MESSAGES"), number("RATE"), number("FAILED"), number("P95"))
	for _, e := range found.Edges {
		p95 := ""
		if e.P95 > 0 {
			p95 = secondsText(e.P95)
		}
		if err := t.Row(nodeText(e.From), nodeText(e.To), strconv.FormatInt(e.Messages, 10), wording.Rate(e.Rate), strconv.FormatInt(e.Failed, 10), p95); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if found.OmittedEdges > 0 {
		if err := p.printf("%s with fewer messages left out", wording.Plural(found.OmittedEdges, "way")); err != nil {
			return err
		}
	}
	if found.OmittedEvents > 0 {
		return p.printf("%s of further exchanges, publishers and queues left out", wording.Plural(int(found.OmittedEvents), "event"))
	}
	return nil
}

func nodeText(n messages.MapNode) string {
	switch {
	case n.Name != "":
		return n.Kind + " " + n.Name
	case n.Kind == messages.MapExchanges:
		return "default exchange"
	}
	return "unknown service"
}

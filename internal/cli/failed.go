package cli

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/internal/wording"
	"github.com/watershipmq/watership/schemas"
)

func newFailed(from *settings) *cobra.Command {
	var selected selected
	var format output
	cmd := &cobra.Command{
		Use:   "failed [QUERY]",
		Short: "List unresolved failures, grouped by queue and error",
		Long: `List messages that failed permanently and were not handled or discarded since. They
are grouped by queue, class, error type and error message, with ids and numbers
replaced by #.

A failure is resolved when a replay of it is handled, or when it is discarded. If
the consumer of the queue does not report to Watership, the replay itself resolves
it. A message whose replay failed again is listed once, with the newer failure.`,
		Example: `  watership failed
  watership failed 'queue: orders' --since 12h -o json
  watership failed discard 'queue: orders and error.type: validation' --reason 'test orders' --yes`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.with(cmd, func(ctx context.Context, a *app.App) error {
				sel, err := selected.selection(a, strings.Join(args, " "), cmd.InOrStdin())
				if err != nil {
					return err
				}
				return list{streamsOf(cmd), from.screen(cmd.OutOrStdout())}.failed(ctx, a, sel.Query, format)
			})
		},
	}
	selected.addFlags(cmd)
	format.addFlag(cmd, "table", "json", "ndjson")
	cmd.AddCommand(newDiscard(from))
	return cmd
}

// failureKind is what the failures of a group have in common.
type failureKind struct {
	Queue string `json:"queue"`
	Class string `json:"class,omitempty"`
	Type  string `json:"type,omitempty"`
	Group string `json:"error_group"`
}

// group is the failures of a kind.
type group struct {
	failureKind
	Count   int       `json:"count"`
	First   time.Time `json:"first"`
	Last    time.Time `json:"last"`
	Example string    `json:"example"` // what show can be asked for
	Query   string    `json:"query"`   // finds them, and with them those that are resolved
}

func (to list) failed(ctx context.Context, a *app.App, node kql.Node, format output) error {
	failures, err := a.Failures(ctx)
	if err != nil {
		return err
	}
	groups := map[failureKind]*group{}
	for fact, err := range failures.Open(ctx, node) {
		if err != nil {
			return err
		}
		k := failureKindOf(fact)
		if groups[k] == nil {
			groups[k] = &group{failureKind: k, First: fact.Time, Query: k.query().String()}
		}
		groups[k].add(fact)
	}
	if len(groups) == 0 && format.is("table") {
		return to.nothing(ctx, a.CheckStore, format, "[]")
	}
	most := slices.SortedFunc(maps.Values(groups), func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), b.Last.Compare(a.Last), cmp.Compare(a.Query, b.Query))
	})
	return to.groups(most, format)
}

func failureKindOf(f eventstore.EventSummary) failureKind {
	return failureKind{Queue: f.Queue, Class: f.Class, Type: f.ErrorType, Group: f.ErrorGroup}
}

func (g *group) add(f eventstore.EventSummary) {
	g.Count++
	if f.Time.Before(g.First) {
		g.First = f.Time
	}
	if !f.Time.Before(g.Last) {
		g.Last = f.Time
		g.Example = cmp.Or(f.MessageID, f.Message, f.EventID)
	}
}

func poisoned() kql.Node { return is("event.action", string(schemas.Poisoned)) }

// query finds the events of a kind.
func (k failureKind) query() kql.Node {
	all := kql.And{poisoned()}
	if k.Type == string(schemas.Quarantined) {
		all = kql.And{history.GivenUp()}
	}
	for _, part := range []struct{ field, value string }{
		{"watership.queue", k.Queue}, {"watership.class", k.Class}, {"error.type", k.Type}, {"watership.error_group", k.Group},
	} {
		if part.value == "" {
			all = append(all, kql.Not{Node: kql.Exists{Field: kql.Pattern{part.field}}})
		} else {
			all = append(all, is(part.field, part.value))
		}
	}
	return all
}

func (l list) groups(groups []*group, format output) error {
	switch format.name {
	case "json":
		return terminal.WriteIndentedJSON(l.Out, append([]*group{}, groups...))
	case "ndjson":
		for _, g := range groups {
			if err := terminal.WriteJSON(l.Out, g); err != nil {
				return err
			}
		}
		return nil
	}
	t := terminal.NewTable(l.Out, l.screen, failedColumns()...)
	total := 0
	for _, g := range groups {
		total += g.Count
		if err := t.Row(strconv.Itoa(g.Count), g.Queue, g.Class, g.Type, g.Group, toTheSecond(g.First), toTheSecond(g.Last), g.Example); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return l.say("%s in %s", wording.Plural(total, "failure"), wording.Plural(len(groups), "group"))
}

func toTheSecond(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

func failedColumns() []terminal.Column {
	return []terminal.Column{
		{Title: "COUNT", Fixed: true, Right: true},
		{Title: "QUEUE"},
		{Title: "CLASS", Spare: 3},
		{Title: "TYPE", Spare: 1},
		{Title: "ERROR"},
		{Title: "FIRST", Fixed: true, Spare: 4},
		{Title: "LAST", Fixed: true, Spare: 2},
		{Title: "EXAMPLE"},
	}
}

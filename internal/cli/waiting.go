package cli

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/render/wording"
)

func newWaiting(from *settings) *cobra.Command {
	var filter filter
	var format outputFormat
	var each bool
	cmd := &cobra.Command{
		Use:   "waiting [QUERY]",
		Short: "List messages that wait for their next attempt",
		Long: `List messages that failed and wait in a delay queue for their next attempt, grouped by
queue, class, error type and error message, with ids and numbers replaced by #. NEXT and
LAST are the times at which the first and the last of a group are due.

Where a route keeps the order of a key, the later messages of the key wait for one that
failed. The keys are listed below the groups, each with that message.

A query matches the latest event of a message, which says since when it waits.`,
		Example: `  watership waiting
  watership waiting 'queue: orders' --each
  watership waiting now 'queue: orders and error.type: timeout' --reason 'the database is back'
  watership waiting postpone 'queue: invoices' --for 2h --reason 'maintenance' --yes
  watership waiting cancel --ids orders.txt --reason 'test orders' --yes`,
		Args: queryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				sel, err := filter.selection(sys, strings.Join(args, " "), cmd.InOrStdin())
				if err != nil {
					return err
				}
				return waitingPrinter{from.printer(cmd)}.waiting(ctx, sys, sel.Query, each, format)
			})
		},
	}
	filter.addFlags(cmd)
	cmd.Flags().BoolVar(&each, "each", false, "list each message, the next due first")
	format.addFlag(cmd, "table", "json", "ndjson")
	cmd.AddCommand(newWaitingNow(from), newWaitingPostpone(from), newWaitingCancel(from))
	return cmd
}

// waitingPrinter prints waiting messages.
type waitingPrinter struct{ printer }

func (p waitingPrinter) waiting(ctx context.Context, sys backend, node kql.Node, each bool, format outputFormat) error {
	in := waiting.PageInput{QueryFilter: queryFilter(node), Limit: wholePage}
	if each {
		var messages []waiting.WaitingMessage
		err := eachPage(func(cursor string) (string, error) {
			in.Cursor = cursor
			page, err := waiting.ListWaiting.Call(ctx, sys, in)
			messages = append(messages, page.Body.Messages...)
			return page.Body.Cursor, err
		})
		if err != nil {
			return err
		}
		return printWaiting(p, format, messages, p.waitingMessages)
	}
	var groups []waiting.WaitingGroup
	err := eachPage(func(cursor string) (string, error) {
		in.Cursor = cursor
		page, err := waiting.GroupWaiting.Call(ctx, sys, in)
		groups = append(groups, page.Body.Groups...)
		return page.Body.Cursor, err
	})
	if err != nil {
		return err
	}
	return printWaiting(p, format, groups, p.waitingGroups)
}

func printWaiting[T any](p waitingPrinter, format outputFormat, items []T, table func([]T) error) error {
	if len(items) == 0 && format.is("table") {
		return p.printNothingFound(format, "[]")
	}
	return writeItems(p.Out, format, items, func() error { return table(items) })
}

func (p waitingPrinter) waitingGroups(groups []waiting.WaitingGroup) error {
	t := terminal.NewTable(
		p.Out, p.screen,
		terminal.Column{Title: "COUNT", Fixed: true, Right: true}, terminal.Column{Title: "QUEUE"}, terminal.Column{Title: "CLASS", DropOrder: 3}, terminal.Column{Title: "TYPE", DropOrder: 1},
		terminal.Column{Title: "ERROR"}, terminal.Column{Title: "NEXT", Fixed: true, Times: true, DropOrder: 2}, terminal.Column{Title: "LAST", Fixed: true, Times: true, DropOrder: 4}, terminal.Column{Title: "EXAMPLE"},
	)
	total := 0
	for _, g := range groups {
		total += g.Count
		if err := t.Row(strconv.Itoa(g.Count), g.Queue, g.Class, g.Type, g.Group, terminal.SecondCell(g.First), terminal.SecondCell(g.Last), g.Example); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := p.printf("%s in %s", wording.Plural(total, "message"), wording.Plural(len(groups), "group")); err != nil {
		return err
	}
	return p.heldKeys(groups)
}

// heldKeys prints the keys whose later messages wait for one of the messages.
func (p waitingPrinter) heldKeys(groups []waiting.WaitingGroup) error {
	t := terminal.NewTable(
		p.Out, p.screen,
		terminal.Column{Title: "QUEUE"}, terminal.Column{Title: "KEY"}, terminal.Column{Title: "WAITS FOR"},
		terminal.Column{Title: "FAILED FIRST", Fixed: true, Times: true, DropOrder: 1}, terminal.Column{Title: "NEXT", Fixed: true, Times: true},
	)
	all, named := 0, 0
	for _, g := range groups {
		all += g.HeldKeys
	}
	if all == 0 {
		return nil
	}
	if err := p.printf("\nThe later messages of %s wait for one that failed:", wording.Plural(all, "key")); err != nil {
		return err
	}
	for _, g := range groups {
		for _, k := range g.Keys {
			named++
			if err := t.Row(g.Queue, k.Key, k.MessageID, terminal.SecondCell(k.FirstFailed), terminal.SecondCell(k.Due)); err != nil {
				return err
			}
		}
	}
	if err := t.Flush(); err != nil || named == all {
		return err
	}
	return p.printf("and %d more: add --each to list every message", all-named)
}

func (p waitingPrinter) waitingMessages(messages []waiting.WaitingMessage) error {
	columns := []terminal.Column{
		{Title: "DUE", Fixed: true, Times: true},
		{Title: "QUEUE"},
		{Title: "ATTEMPTS", Fixed: true, Right: true, DropOrder: 3},
		{Title: "CLASS", DropOrder: 2},
		{Title: "TYPE", DropOrder: 1},
		{Title: "ERROR"},
		{Title: "MESSAGE"},
		{Title: "ID", DropOrder: 4},
	}
	keyed := slices.ContainsFunc(messages, func(m waiting.WaitingMessage) bool { return m.Key != "" })
	if keyed {
		columns = append(columns, terminal.Column{Title: "KEY"}, terminal.Column{Title: "ORDER", Fixed: true})
	}
	t := terminal.NewTable(p.Out, p.screen, columns...)
	for _, m := range messages {
		row := []string{terminal.SecondCell(m.Due), m.Queue, strconv.Itoa(m.Attempt), m.Class, m.Type, waitingError(m), cmp.Or(m.MessageID, m.ID), m.ID}
		if keyed {
			row = append(row, m.Key, string(m.Order))
		}
		if err := t.Row(row...); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	return p.printf("%s", wording.Plural(len(messages), "message"))
}

// waitingError returns the error for which a message waits, and says if it is one of its key.
func waitingError(m waiting.WaitingMessage) string {
	if m.Reason == waiting.KeyFailed {
		return "waits for its key, whose messages fail: " + m.Error
	}
	return m.Error
}

package cli

import (
	"context"
	"fmt"
	"strconv"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/render/wording"
)

// messagesPerPage is how many messages one call lists.
const messagesPerPage = 500

// listMessages prints the messages with events that match a query.
func (q search) listMessages(ctx context.Context, sys backend, to printer, node kql.Node) error {
	fields, err := fieldsNamed(sys, q.fields)
	if err != nil {
		return err
	}
	in, found := messages.ListInput{QueryFilter: queryFilter(node)}, []messages.Listed{}
	for _, f := range fields {
		in.Fields = append(in.Fields, f.name)
	}
	err = eachPage(func(cursor string) (string, error) {
		in.Cursor, in.Limit = cursor, messagesPerPage
		if q.limit > 0 {
			in.Limit = min(in.Limit, q.limit-len(found))
		}
		page, err := messages.ListMessages.Call(ctx, sys, in)
		if err != nil {
			return "", err
		}
		if found = append(found, page.Body.Messages...); q.limit > 0 && len(found) >= q.limit {
			return "", nil
		}
		return page.Body.Cursor, nil
	})
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return to.printNothingFound(q.format, "[]")
	}
	return writeItems(to.Out, q.format, found, func() error { return to.listed(found, in.Fields, q.fields) })
}

// listed prints messages as a table, with the values of fields under their titles.
func (p printer) listed(found []messages.Listed, fields, titles []string) error {
	columns := []terminal.Column{
		{Title: "STATE", Fixed: true},
		{Title: "MESSAGE"},
		{Title: "EXCHANGE", DropOrder: 3},
		{Title: "KEY", DropOrder: 2},
		{Title: "ATTEMPTS", Fixed: true, Right: true, DropOrder: 4},
		{Title: "LATEST", Fixed: true, Times: true, DropOrder: 1},
	}
	for _, title := range titles {
		columns = append(columns, terminal.Column{Title: title})
	}
	t := terminal.NewTable(p.Out, p.screen, append(columns, terminal.Column{Title: "ERROR"})...)
	for _, m := range found {
		attempts := ""
		if m.Attempts > 0 {
			attempts = strconv.Itoa(m.Attempts)
		}
		row := []string{string(m.State), m.Name(), m.Exchange, m.RoutingKey, attempts, terminal.SecondCell(m.Last)}
		for _, field := range fields {
			value := ""
			if v, has := m.Values[field]; has {
				value = fmt.Sprint(v)
			}
			row = append(row, wording.OneLine(value))
		}
		if err := t.Row(append(row, wording.OneLine(m.Error))...); err != nil {
			return err
		}
	}
	return t.Flush()
}

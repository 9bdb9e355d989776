package cli

import (
	"context"
	"strconv"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/render/wording"
)

// failedBy lists failures by the values of fields.
func (p failurePrinter) failedBy(ctx context.Context, sys backend, node kql.Node, fields []string, format outputFormat) error {
	found, err := failures.GroupFailuresBy.Call(ctx, sys, failures.ByInput{QueryFilter: queryFilter(node), Fields: fields})
	if err != nil {
		return err
	}
	by := found.Body
	if len(by.Groups) == 0 && format.is("table") {
		return p.printNothingFound(format, "[]")
	}
	return writeItems(p.Out, format, namedValues(by), func() error { return p.fieldGroups(by) })
}

// namedGroup is a group for programs, which need not know the order of the fields.
type namedGroup struct {
	Values map[string]string `json:"values"` // by the full names of fields
	failures.FieldGroup
}

func namedValues(by failures.FailuresBy) []namedGroup {
	groups := make([]namedGroup, len(by.Groups))
	for i, g := range by.Groups {
		groups[i] = namedGroup{map[string]string{}, g}
		for n, name := range by.Fields {
			groups[i].Values[name] = g.Values[n]
		}
	}
	return groups
}

func (p failurePrinter) fieldGroups(by failures.FailuresBy) error {
	columns := []terminal.Column{{Title: "COUNT", Fixed: true, Right: true}}
	for _, name := range by.Fields {
		columns = append(columns, terminal.Column{Title: name})
	}
	columns = append(columns, terminal.Column{Title: "FIRST", Fixed: true, Times: true, DropOrder: 2}, terminal.Column{Title: "LAST", Fixed: true, Times: true, DropOrder: 1}, terminal.Column{Title: "EXAMPLE"})
	t := terminal.NewTable(p.Out, p.screen, columns...)
	for _, g := range by.Groups {
		row := append([]string{strconv.Itoa(g.Count)}, g.Values...)
		if err := t.Row(append(row, terminal.SecondCell(g.First), terminal.SecondCell(g.Last), g.Example)...); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	more := ""
	if by.Total > len(by.Groups) {
		more = ", of which these have most"
	}
	return p.printf("%s in %s%s", wording.Plural(by.Failures, "failure"), wording.Plural(by.Total, "group"), more)
}

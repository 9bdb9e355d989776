package cli

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/system"
)

func (p printer) count(ctx context.Context, sys backend, node kql.Node, format outputFormat) error {
	counted, err := messages.CountEvents.Call(ctx, sys, messages.CountInput{QueryFilter: queryFilter(node)})
	if err != nil {
		return err
	}
	if format.is("json", "ndjson") {
		return p.printf(`{"count":%d}`, counted.Body.Count)
	}
	return p.printf("%d", counted.Body.Count)
}

// mostValues is the maximum number of values by which events are counted.
const mostValues = 10_000

// countBy counts events by the values of a field, or by the steps of a time.
func countBy(ctx context.Context, sys backend, node kql.Node, name string, limit int) (kql.Field, messages.Values, error) {
	field, err := sys.Field(name)
	if err != nil {
		return field, messages.Values{}, err
	}
	filter := queryFilter(node)
	if field.Type == kql.Date {
		filter.Zone = client.ZoneName(time.Local)
		counted, err := messages.CountOverTime.Call(ctx, sys, messages.HistogramInput{QueryFilter: filter, Field: field.Name})
		return field, counted.Body, err
	}
	if limit == 0 || limit > mostValues {
		limit = mostValues
	}
	counted, err := messages.CountValues.Call(ctx, sys, messages.ValuesInput{QueryFilter: filter, Field: field.Name, Limit: limit})
	return field, counted.Body, err
}

// aggregate counts events by the values of a field.
func (q search) aggregate(ctx context.Context, sys backend, to printer, node kql.Node) error {
	field, counts, err := countBy(ctx, sys, node, q.by, q.limit)
	var mistake system.InputError
	switch {
	case errors.As(err, &mistake):
		return usagef("--by %w", err)
	case err != nil:
		return err
	case len(counts.Values) == 0 && counts.Without == 0:
		return to.printNothingFound(q.format, `{"values":[],"others":0,"without":0}`)
	}
	return to.aggregation(field, counts, q.format)
}

func (p printer) aggregation(f kql.Field, counts messages.Values, format outputFormat) error {
	switch format.name {
	case "json":
		return terminal.WriteJSON(p.Out, struct {
			Values  []messages.Value `json:"values"`
			Others  int64            `json:"others"`
			Without int64            `json:"without"`
		}{counts.Values, counts.Others, counts.Without})
	case "ndjson":
		for _, value := range counts.Values {
			if err := terminal.WriteJSON(p.Out, value); err != nil {
				return err
			}
		}
		return nil
	case "csv":
		w := newCSV(p.Out)
		rows := [][]string{{f.Name, "count"}}
		for _, value := range counts.Values {
			text := value.Value
			if f.Type != kql.Long && f.Type != kql.Double {
				text = w.Escape(text)
			}
			rows = append(rows, []string{text, strconv.FormatInt(value.Count, 10)})
		}
		return w.WriteAll(rows)
	}
	return p.bars(f, counts)
}

const longestBar = 40 // characters

// bars draws a histogram.
func (p printer) bars(f kql.Field, counts messages.Values) error {
	t := terminal.NewTable(p.Out, p.screen, barColumns(f.Name)...)
	most := int64(1)
	for _, value := range counts.Values {
		most = max(most, value.Count)
	}
	for _, value := range counts.Values {
		bar := int((value.Count*longestBar + most/2) / most)
		if value.Count > 0 {
			bar = max(bar, 1)
		}
		text := value.Value
		if f.Type == kql.Date {
			text = localTime(text)
		}
		if err := t.Row(text, strconv.FormatInt(value.Count, 10), strings.Repeat("▇", bar)); err != nil {
			return err
		}
	}
	for _, rest := range []struct {
		name  string
		count int64
	}{{"(other values)", counts.Others}, {"(no value)", counts.Without}} {
		if rest.count == 0 {
			continue
		}
		if err := t.Row(rest.name, strconv.FormatInt(rest.count, 10), ""); err != nil {
			return err
		}
	}
	if counts.Inexact > 0 {
		if err := t.Flush(); err != nil {
			return err
		}
		return p.printf("counts may be up to %d too low", counts.Inexact)
	}
	return t.Flush()
}

func barColumns(name string) []terminal.Column {
	return []terminal.Column{{Title: name}, {Title: "COUNT", Fixed: true, Right: true}, {Fixed: true, DropOrder: 1}}
}

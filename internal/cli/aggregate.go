package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/system"
)

func (p printer) count(ctx context.Context, events reader, sel eventstore.Selection, format outputFormat) error {
	n, err := events.Count(ctx, sel)
	if err != nil {
		return err
	}
	if n == 0 {
		if err := events.Check(ctx); err != nil {
			return err
		}
	}
	if format.is("json", "ndjson") {
		return p.printf(`{"count":%d}`, n)
	}
	return p.printf("%d", n)
}

// aggregate counts events by the values of a field.
func (q search) aggregate(ctx context.Context, sys backend, to printer, sel eventstore.Selection) error {
	field, counts, err := sys.Aggregate(ctx, sys, sel, q.by, q.limit)
	var mistake system.InputError
	switch {
	case errors.As(err, &mistake):
		return usagef("--by %w", err)
	case err != nil:
		return err
	case len(counts.Values) == 0 && counts.Without == 0:
		return to.printNothingFound(ctx, sys.Check, q.format, `{"values":[],"others":0,"without":0}`)
	}
	return to.aggregation(field, counts, q.format)
}

func (p printer) aggregation(f kql.Field, counts eventstore.Aggregation, format outputFormat) error {
	switch format.name {
	case "json":
		return p.aggregationJSON(counts)
	case "ndjson":
		for _, value := range counts.Values {
			if err := terminal.WriteJSON(p.Out, valueJSON(value)); err != nil {
				return err
			}
		}
		return nil
	case "csv":
		w := newCSV(p.Out)
		rows := [][]string{{f.Name, "count"}}
		for _, value := range counts.Values {
			text := value.Text
			if f.Type != kql.Long && f.Type != kql.Double {
				text = w.Escape(text)
			}
			rows = append(rows, []string{text, strconv.FormatInt(value.Count, 10)})
		}
		return w.WriteAll(rows)
	}
	return p.bars(f, counts)
}

func (p printer) aggregationJSON(counts eventstore.Aggregation) error {
	values := make([]json.RawMessage, len(counts.Values))
	for i, value := range counts.Values {
		values[i] = valueJSON(value)
	}
	return terminal.WriteJSON(p.Out, struct {
		Values  []json.RawMessage `json:"values"`
		Others  int64             `json:"others"`
		Without int64             `json:"without"`
	}{values, counts.Others, counts.Without})
}

func valueJSON(value eventstore.Bucket) json.RawMessage {
	text, _ := json.Marshal(struct { // a text and a number
		Value string `json:"value"`
		Count int64  `json:"count"`
	}{value.Text, value.Count})
	return text
}

const longestBar = 40 // characters

// bars draws a histogram.
func (p printer) bars(f kql.Field, counts eventstore.Aggregation) error {
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
		text := value.Text
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

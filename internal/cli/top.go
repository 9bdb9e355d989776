package cli

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/terminal"
)

func (l list) count(ctx context.Context, store app.EventStore, sel eventstore.Selection, format output) error {
	n, err := store.Count(ctx, sel)
	if err != nil {
		return err
	}
	if n == 0 {
		if err := store.Check(ctx); err != nil {
			return err
		}
	}
	if format.is("json", "ndjson") {
		return l.say(`{"count":%d}`, n)
	}
	return l.say("%d", n)
}

const (
	topValues = 10_000 // most values of --by, with --limit 0
	timeSteps = 40     // most steps of a histogram over time
)

// aggregate counts events by the values of a field.
func (q search) aggregate(ctx context.Context, a *app.App, to list, store app.EventStore, sel eventstore.Selection) error {
	f, err := a.Field(q.by)
	if err != nil {
		return err
	}
	if q.limit == 0 || q.limit > topValues {
		q.limit = topValues
	}
	var tally eventstore.Aggregation
	switch f.Type {
	case kql.Text:
		return usagef("--by %s: its words are searched, but it cannot be counted by; %s", f.Name, insteadOf(f.Name))
	case kql.Date:
		tally, err = store.Histogram(ctx, sel, f.Name, timeSteps, time.Local)
	default:
		tally, err = store.TopValues(ctx, sel, f.Name, q.limit)
	}
	switch {
	case err != nil:
		return err
	case len(tally.Values) == 0 && tally.Without == 0:
		return to.nothing(ctx, store.Check, q.format, `{"values":[],"others":0,"without":0}`)
	}
	return to.tally(f, tally, q.format)
}

func insteadOf(text string) string {
	if text == "error.message" {
		return "watership.error_group, which folds ids and numbers, can"
	}
	return "expected a keyword, a number, a date or a header"
}

func (l list) tally(f kql.Field, tally eventstore.Aggregation, format output) error {
	switch format.name {
	case "json":
		return l.tallyJSON(tally)
	case "ndjson":
		for _, value := range tally.Values {
			if err := terminal.WriteJSON(l.Out, valueJSON(value)); err != nil {
				return err
			}
		}
		return nil
	case "csv":
		w := terminal.NewSheet(l.Out)
		rows := [][]string{{f.Name, "count"}}
		for _, value := range tally.Values {
			text := value.Text
			if f.Type != kql.Long && f.Type != kql.Double {
				text = w.Text(text)
			}
			rows = append(rows, []string{text, strconv.FormatInt(value.Count, 10)})
		}
		return w.WriteAll(rows)
	}
	return l.bars(f, tally)
}

func (l list) tallyJSON(tally eventstore.Aggregation) error {
	values := make([]json.RawMessage, len(tally.Values))
	for i, value := range tally.Values {
		values[i] = valueJSON(value)
	}
	return terminal.WriteJSON(l.Out, struct {
		Values  []json.RawMessage `json:"values"`
		Others  int64             `json:"others"`
		Without int64             `json:"without"`
	}{values, tally.Others, tally.Without})
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
func (l list) bars(f kql.Field, tally eventstore.Aggregation) error {
	t := terminal.NewTable(l.Out, l.screen, barColumns(f.Name)...)
	most := int64(1)
	for _, value := range tally.Values {
		most = max(most, value.Count)
	}
	for _, value := range tally.Values {
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
	}{{"(other values)", tally.Others}, {"(no value)", tally.Without}} {
		if rest.count == 0 {
			continue
		}
		if err := t.Row(rest.name, strconv.FormatInt(rest.count, 10), ""); err != nil {
			return err
		}
	}
	if tally.Inexact > 0 {
		if err := t.Flush(); err != nil {
			return err
		}
		return l.say("counts may be up to %d too low", tally.Inexact)
	}
	return t.Flush()
}

func barColumns(name string) []terminal.Column {
	return []terminal.Column{{Title: name}, {Title: "COUNT", Fixed: true, Right: true}, {Fixed: true, Spare: 1}}
}

package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/schemas"
)

func newSearch(from *settings) *cobra.Command {
	var period span
	var limit int
	var format output
	cmd := &cobra.Command{
		Use:   "search [QUERY]",
		Short: "List events that a query finds, the newest first",
		Long: `search takes Kibana's query language: field: value, "phrases", wildcards, and,
or, not, parentheses, ranges. A field may be named by the end of its name, such
as queue or action, and a header as headers.NAME. No query finds everything.`,
		Example: `  watership search 'action: poisoned and headers.tenant: acme' --since 1h
  watership search 'error.message: timeout' -o ndjson --limit 0`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := from.system(terminalOf(cmd))
			if err != nil {
				return err
			}
			node, err := s.parseQuery(strings.Join(args, " "))
			if err != nil {
				return err
			}
			if node, err = period.limit(node); err != nil {
				return err
			}
			if limit < 0 {
				return usagef("--limit %d: expected 0 (no limit) or more", limit)
			}
			store, err := s.store()
			if err != nil {
				return err
			}
			defer store.Close()
			events := store.Events(cmd.Context(), schemas.Selection{Query: node, Limit: limit, WithoutBody: format.isTable()})
			return format.events(cmd.OutOrStdout(), events)
		},
	}
	period.addFlags(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 50, "most events to list; 0 lists all")
	format.addFlag(cmd)
	return cmd
}

// output is how a list is written.
type output struct{ name string }

func (o *output) addFlag(cmd *cobra.Command) {
	o.name = "table"
	cmd.Flags().VarP(o, "output", "o", "table, json or ndjson")
}

// Set implements pflag.Value.
func (o *output) Set(name string) error {
	switch name {
	case "table", "json", "ndjson":
		o.name = name
		return nil
	}
	return fmt.Errorf("expected table, json or ndjson")
}

func (o *output) String() string { return o.name }

// Type implements pflag.Value.
func (o *output) Type() string { return "format" }

func (o *output) isTable() bool { return o.name == "table" }

func (o *output) events(out io.Writer, events iter.Seq2[schemas.Event, error]) error {
	switch o.name {
	case "json":
		return writeJSON(out, events)
	case "ndjson":
		return writeLines(out, events)
	}
	return writeTable(out, events)
}

// writeLines writes each event as its document, one a line.
func writeLines(out io.Writer, events iter.Seq2[schemas.Event, error]) error {
	for event, err := range events {
		if err != nil {
			return err
		}
		if _, err := out.Write(append(document(event), '\n')); err != nil {
			return err
		}
	}
	return nil
}

func writeJSON(out io.Writer, events iter.Seq2[schemas.Event, error]) error {
	before := "[\n"
	for event, err := range events {
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "%s%s", before, document(event)); err != nil {
			return err
		}
		before = ",\n"
	}
	if before == "[\n" {
		_, err := fmt.Fprintln(out, "[]")
		return err
	}
	_, err := fmt.Fprintln(out, "\n]")
	return err
}

func document(e schemas.Event) []byte { return schemas.DocumentFormat{}.Append(nil, e) }

func writeTable(out io.Writer, events iter.Seq2[schemas.Event, error]) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "TIME\tACTION\tEXCHANGE\tROUTING KEY\tQUEUE\tATTEMPT\tMESSAGE\tERROR")
	found := 0
	for event, err := range events {
		if err != nil {
			_ = table.Flush()
			return err
		}
		found++
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			oneLine(event.Time), event.Action, exchangeName(event.Envelope.Exchange),
			cell(event.Envelope.RoutingKey, 40), cell(event.Queue, 40), attemptText(event),
			cell(nameOf(event), 40), cell(event.Failure.Message, 60))
	}
	if err := table.Flush(); err != nil || found > 0 {
		return err
	}
	_, err := fmt.Fprintln(out, "nothing found")
	return err
}

func exchangeName(exchange string) string {
	if exchange == "" {
		return "(default)"
	}
	return cell(exchange, 40)
}

func attemptText(e schemas.Event) string {
	if e.Attempt == 0 {
		return ""
	}
	return fmt.Sprint(e.Attempt)
}

// nameOf is what show can be asked for.
func nameOf(e schemas.Event) string {
	if id := e.Envelope.Properties.MessageID; id != "" {
		return id
	}
	if e.Message != "" {
		return e.Message
	}
	return e.EventID
}

// cell is text on one line, without control characters, not too wide.
func cell(text string, width int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
	if runes := []rune(text); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}

// collect reads a few events into memory.
func collect(ctx context.Context, events iter.Seq2[schemas.Event, error]) ([]schemas.Event, error) {
	var list []schemas.Event
	for event, err := range events {
		if err != nil {
			return nil, err
		}
		list = append(list, event)
	}
	return list, ctx.Err()
}

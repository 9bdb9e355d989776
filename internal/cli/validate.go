package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline/bodyschema"
)

// validate has the arguments of `validate`.
type validate struct {
	filter      filter
	file, queue string
	limit       int
	format      outputFormat
	schema      *bodyschema.Schema // of file; nil: the schema of the route

	upcast, subscription string       // as the flags have them
	trial                *upcastTrial // nil: messages are checked with a schema
}

func newValidate(from *settings) *cobra.Command {
	var v validate
	cmd := &cobra.Command{
		Use:   "validate [QUERY]",
		Short: "Check old messages with a JSON Schema, or try an upcast on them",
		Long: `Tell which messages of a query would fail with a schema, before a route has it: with
--schema the one of a file, with --route the one that the configuration names for the
route of a queue. Each failure has its path and rule.

With --upcast, tell what the program of a file makes of the messages of a query, before
a subscription has it: how many it changes, the first of them before and after, and for
which it fails. --subscription takes the query and the program of a subscription,
unless others are given.

Equal messages are checked once. The exit code is 0 if all fit, and 3 if some do not.`,
		Example: `  watership validate 'queue: orders' --since 7d --schema order.json
  watership validate 'destination.name: shop' --route orders -o ndjson
  watership validate 'destination.name: shop' --since 7d --upcast v2.jq
  watership validate --subscription invoices --upcast v3.jq`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := requireQuery(args, "checks")
			if v.subscription != "" && len(args) == 0 {
				err = nil
			}
			if err == nil {
				err = v.check(cmd.InOrStdin())
			}
			if err != nil {
				return err
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				if v.trial != nil {
					if text, err = v.trial.prepare(ctx, sys, v.subscription, text); err != nil {
						return err
					}
				}
				sel, err := v.filter.selection(sys, text, cmd.InOrStdin())
				if err != nil {
					return err
				}
				return v.run(ctx, sys, from.printer(cmd), sel)
			})
		},
	}
	v.filter.addFlags(cmd)
	addNonEmpty(cmd.Flags(), &v.file, "schema", "file with the JSON Schema; - reads standard input")
	addNonEmpty(cmd.Flags(), &v.queue, "route", "queue of the route whose schema is used")
	addNonEmpty(cmd.Flags(), &v.upcast, "upcast", "file with a program in the language of jq that changes former versions of messages; - reads standard input")
	addNonEmpty(cmd.Flags(), &v.subscription, "subscription", "subscription whose query and program are used")
	cmd.Flags().IntVarP(&v.limit, "limit", "n", 100, "maximum number of failures to print; 0: no limit")
	v.format.addFlag(cmd, "text", "json", "ndjson")
	return cmd
}

func (v *validate) check(in io.Reader) (err error) {
	isTrial := v.upcast != "" || v.subscription != ""
	switch {
	case isTrial == (v.file != "" || v.queue != ""), v.file != "" && v.queue != "":
		return usagef("expected either --schema, --route, or --upcast and --subscription")
	case v.limit < 0:
		return usagef("--limit %d: expected 0 (no limit) or more", v.limit)
	case v.upcast == "-" && v.filter.dsl == "-":
		return usagef("--upcast and --dsl cannot both be standard input: give one of them a file")
	case isTrial:
		v.trial, err = newUpcastTrial(v.upcast, in)
		return err
	case v.file == "":
		return nil
	case v.file == "-" && v.filter.dsl == "-":
		return usagef("--schema and --dsl cannot both be standard input: give one of them a file")
	}
	if v.schema, err = loadSchema(v.file, in); err != nil {
		return system.InputError{Err: err}
	}
	return nil
}

// loadSchema reads a schema; "-" is standard input, which refers to files of the working directory.
func loadSchema(file string, in io.Reader) (*bodyschema.Schema, error) {
	if file != "-" {
		return bodyschema.Load(file)
	}
	content, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	return bodyschema.Parse("standard input", content)
}

func (v *validate) run(ctx context.Context, sys backend, to printer, sel eventstore.Selection) error {
	var list []messages.InvalidMessage // for JSON
	printed := 0
	summary, err := v.each(ctx, sys, sel, func(f messages.InvalidMessage) error {
		if printed++; v.limit > 0 && printed > v.limit {
			return nil
		}
		switch v.format.name {
		case "json":
			list = append(list, f)
			return nil
		case "ndjson":
			return terminal.WriteJSON(to.Out, f)
		}
		return to.unfit(f)
	})
	if err != nil {
		return err
	}
	if err := v.print(to, summary, list); err != nil {
		return err
	}
	if summary.Failed > 0 {
		return unfitError(summary)
	}
	return nil
}

// each calls invalid with each message of a selection that does not fit.
func (v *validate) each(ctx context.Context, sys backend, sel eventstore.Selection, invalid func(messages.InvalidMessage) error) (messages.Summary, error) {
	if v.schema == nil && v.trial == nil {
		return sys.Validate(ctx, v.queue, sel, invalid)
	}
	cfg := messages.ValidationConfig{Store: sys, Schema: v.schema}
	if v.trial != nil {
		cfg.Check = v.trial.try
	}
	if l, isLocal := sys.(*local); isLocal {
		cfg.Fingerprints = l.Settings().Fingerprint
	}
	sel.Order = eventstore.BySequence
	return messages.Run(ctx, cfg, sel, invalid)
}

func (v *validate) print(to printer, summary messages.Summary, list []messages.InvalidMessage) error {
	switch v.format.name {
	case "json":
		return terminal.WriteIndentedJSON(to.Out, struct {
			messages.Summary
			*trialResult
			Failures []messages.InvalidMessage `json:"failures"`
		}{summary, v.trial.result(), append([]messages.InvalidMessage{}, list...)})
	case "ndjson":
		return nil
	}
	text := fmt.Sprintf("%s checked, %d of them do not fit the schema %s", wording.Plural(summary.Messages, "message"), summary.Failed, terminal.Cell(summary.Schema, 255))
	if v.trial != nil {
		if err := v.trial.print(to); err != nil {
			return err
		}
		text = fmt.Sprintf("%s checked, %d of them changed, %d of them fail", wording.Plural(summary.Messages, "message"), v.trial.changed, summary.Failed)
	}
	if v.limit > 0 && summary.Failed > v.limit {
		text += fmt.Sprintf(" (%d are printed: see --limit)", v.limit)
	}
	if summary.Unknown > 0 {
		text += fmt.Sprintf("\n%s not checked, as no event has the body", wording.Plural(summary.Unknown, "message"))
	}
	return to.printf("%s", text)
}

// unfit prints a message that does not fit, with its id, if it has one, and the id of an event.
func (p printer) unfit(f messages.InvalidMessage) error {
	id := "event " + terminal.Cell(f.Event, 100)
	if f.MessageID != "" {
		id = "message " + terminal.Cell(f.MessageID, 100) + ", " + id
	}
	return p.printf("%s  %s  %s %s\n  %s", terminal.Time(f.Time), id, terminal.Cell(f.Exchange, 255), terminal.Cell(f.RoutingKey, 255), terminal.Cell(f.Error, 2000))
}

// unfitError is the result of a validation with failures.
type unfitError messages.Summary

func (e unfitError) Error() string {
	if e.Schema == "" {
		return fmt.Sprintf("the upcast fails for %d of %s", e.Failed, wording.Plural(e.Messages, "message"))
	}
	return fmt.Sprintf("%d of %s do not fit the schema", e.Failed, wording.Plural(e.Messages, "message"))
}

package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operate/messages"
)

// search holds the arguments of `search`.
type search struct {
	filter filter
	limit  int
	fields []string
	count  bool
	by     string
	sort   string
	format outputFormat

	messages bool
}

func newSearch(from *settings) *cobra.Command {
	var asked search
	cmd := &cobra.Command{
		Use:   "search [QUERY]",
		Short: "Search events, newest or slowest first",
		Long: `Search events with Kibana's query language (KQL): field: value, "phrases",
wildcards, and, or, not, parentheses and ranges. Without a query, all events match.

A field can be named by the end of its name, such as queue or action, and a header
as headers.NAME. Times without a zone are in the local zone (TZ), as in the output.
--sort slowest lists the messages first that took longest from publish to handled,
slowest-queue the attempts that waited longest in their queue, slowest-handler those
that took longest. docs/record.md says when these times are known.

See docs/query.md for the whole language and its differences from Kibana.

--messages lists messages instead: each message with an event that matches once, with
its state at the queue that needs most attention, and --fields besides.

-o csv prefixes text that a spreadsheet would read as a formula with an apostrophe;
-o json and -o ndjson print every value unchanged.`,
		Example: `  watership search 'action: poisoned and headers.tenant: acme' --since 1h
  watership search 'error.message: timeout' -o ndjson --limit 0
  watership search 'action: handled' --fields @timestamp,message.id,headers.tenant -o csv
  watership search --messages 'headers.tenant: acme' --fields headers.tenant
  watership search 'queue: orders' --since 1h --sort slowest-queue --limit 10
  watership search 'action: poisoned' --count
  watership search 'action: poisoned' --by error_group --since 7d
  watership search --by @timestamp`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := asked.validate(); err != nil {
				return err
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				sel, err := asked.filter.selection(sys, strings.Join(args, " "), cmd.InOrStdin())
				if err != nil {
					return err
				}
				sel.Limit = asked.limit
				sel = messages.Sorted(sel, asked.sort)
				return asked.run(ctx, sys, from.printer(cmd), sel)
			})
		},
	}
	asked.filter.addFlags(cmd)
	flags := cmd.Flags()
	flags.IntVarP(&asked.limit, "limit", "n", 50, "maximum number of events, of messages, or of values with --by; 0: no limit")
	flags.StringSliceVar(&asked.fields, "fields", nil, "columns to print, such as event.action,headers.tenant")
	flags.BoolVar(&asked.messages, "messages", false, "list messages with their states, not events")
	flags.BoolVar(&asked.count, "count", false, "print only the number of events")
	addNonEmpty(flags, &asked.by, "by", "count events by the values of this field")
	flags.Var(newChoice(&asked.sort, "newest", "slowest", "slowest-queue", "slowest-handler"), "sort", "order: newest, slowest, slowest-queue or slowest-handler")
	asked.format.addFlag(cmd, "table", "json", "ndjson", "csv")
	return cmd
}

func (q search) validate() error {
	switch {
	case q.limit < 0:
		return usagef("--limit %d: expected 0 (no limit) or more", q.limit)
	case q.count && q.by != "":
		return usagef("--count and --by cannot be combined")
	case q.messages && (q.count || q.by != ""):
		return usagef("--messages cannot be combined with --count or --by")
	case q.messages && q.format.is("csv"):
		return usagef("--messages has no -o csv: use table, json or ndjson")
	case q.sort != "" && q.sort != "newest" && (q.count || q.by != "" || q.messages):
		return usagef("--sort cannot be combined with --count, --by or --messages")
	case len(q.fields) > 0 && (q.count || q.by != ""):
		return usagef("--fields cannot be combined with --count or --by")
	}
	return nil
}

func (q search) run(ctx context.Context, sys backend, to printer, sel eventstore.Selection) error {
	switch {
	case q.count:
		return to.count(ctx, sys, sel.Query, q.format)
	case q.by != "":
		return q.aggregate(ctx, sys, to, sel.Query)
	case q.messages:
		return q.listMessages(ctx, sys, to, sel.Query)
	}
	fields := usualFields()
	if time, ok := timeOf(sel.Order); ok {
		fields = slices.Insert(fields, 0, time)
	}
	if len(q.fields) > 0 {
		var err error
		if fields, err = fieldsNamed(sys, q.fields); err != nil {
			return err
		}
	}
	chosen := q.format.is("table", "csv") || len(q.fields) > 0
	sel.WithoutBody = chosen && !needsBody(fields)
	if err := to.checkBodies(ctx, sys, fields, sel); err != nil {
		return err
	}
	w := newEventWriter(sys, to, q.format, fields, len(q.fields) > 0)
	found, err := to.write(w, sys.Events(ctx, sel))
	if err != nil || found > 0 {
		return err
	}
	err = to.printNothingFound(q.format, "[]")
	if err == nil && q.format.is("csv") {
		err = w.end() // writes the names of the fields
	}
	return err
}

// checkBodies warns that whole documents are printed without bodies, if the caller may not
// read them. To name a field of bodies is a mistake then.
func (p printer) checkBodies(ctx context.Context, sys backend, fields []field, sel eventstore.Selection) error {
	if sel.WithoutBody {
		return nil
	}
	version, err := sys.Version(ctx)
	switch {
	case err != nil || version.Caller.Bodies:
		return err
	case needsBody(fields):
		return errors.New("--fields: the token may not read bodies; ask an administrator for one that may (token create --bodies)")
	}
	p.Warn("the token may not read bodies: they are left out")
	return nil
}

// printNothingFound prints an empty result, or the text empty as JSON.
func (p printer) printNothingFound(format outputFormat, empty string) error {
	switch format.name {
	case "table":
		return p.printf("nothing found")
	case "json":
		return p.printf("%s", empty)
	}
	return nil
}

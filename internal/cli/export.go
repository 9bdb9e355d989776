package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/schemas"
)

func newExport(from *settings) *cobra.Command {
	var filter filter
	var limit int
	var asked originals
	cmd := &cobra.Command{
		Use:   "export QUERY",
		Short: "Export the events that match a query as NDJSON",
		Long: `Write matching events to standard output, one JSON document per line, in the order
in which they were recorded. An event has everything that its message needs to be
published unchanged: exchange, routing key, properties, typed headers and body.

Read the output with import (into another store) or publish --ndjson (as messages).
Redacted messages stay redacted, with their sealed originals. With --original the
messages are as they were published, for whoever may read originals: an audit event
has the reason.`,
		Example: `  watership export 'action: published and headers.tenant: acme' --since 1d > acme.ndjson
  watership export '*' | gzip > all.ndjson.gz`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := requireQuery(args, "exports")
			if err == nil {
				err = asked.check()
			}
			if err != nil {
				return err
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				sel, err := filter.selection(sys, text, cmd.InOrStdin())
				if err != nil {
					return err
				}
				sel.Limit, sel.Order = limit, eventstore.BySequence
				return export(ctx, sys, streamsOf(cmd), sel, asked.wanted)
			})
		},
	}
	filter.addFlags(cmd)
	cmd.Flags().IntVarP(&limit, "limit", "n", 0, "maximum number of events; 0: no limit")
	asked.addFlags(cmd, "export messages as they were published, before values were replaced; it needs --reason")
	return cmd
}

func export(ctx context.Context, sys backend, t terminal.Streams, sel eventstore.Selection, original bool) error {
	bar, err := exportBar(ctx, t, sys, sel)
	if err != nil {
		return err
	}
	events, redacted := sys.Events(ctx, sel), 0
	if original {
		events = countRedacted(sys.Originals(ctx, sel), &redacted)
	}
	found, err := printer{Streams: t}.write(lineWriter{bufio.NewWriter(t.Out), document}, counted(events, bar))
	bar.End()
	_, cut := errors.AsType[*eventstore.Error](err)
	if _, told := errors.AsType[*client.Error](err); cut && !told && found > 0 {
		err = fmt.Errorf("the export ended after %s, before its end: %w\nwhat was written is incomplete: repeat the export", wording.Plural(found, "event"), err)
	}
	if err == nil && redacted > 0 {
		err = fmt.Errorf("%s stayed redacted: no key opens their originals, they were erased, or none were kept", wording.Plural(redacted, "event"))
	}
	return err
}

// countRedacted counts the events whose messages are redacted.
func countRedacted(events iter.Seq2[schemas.Event, error], n *int) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		for e, err := range events {
			if err == nil && e.Envelope.Redacted {
				*n++
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// exportBar returns no bar if the events themselves go to the terminal.
func exportBar(ctx context.Context, t terminal.Streams, sys backend, sel eventstore.Selection) (*terminal.Bar, error) {
	if terminal.IsTerminal(t.Out) {
		return terminal.NewBar(io.Discard, 0), nil
	}
	bar := terminal.NewBar(t.Err, 0)
	if !bar.IsShown() {
		return bar, nil
	}
	counted, err := messages.CountEvents.Call(ctx, sys, messages.CountInput{QueryFilter: queryFilter(sel.Query)})
	total := int(counted.Body.Count)
	if sel.Limit > 0 {
		total = min(total, sel.Limit)
	}
	bar.Expect(total)
	return bar, err
}

// counted shows in the bar how many events were read.
func counted(events iter.Seq2[schemas.Event, error], bar *terminal.Bar) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		n := 0
		for e, err := range events {
			if !yield(e, err) {
				return
			}
			n++
			bar.Show(n)
		}
	}
}

package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/schemas"
)

func newStream(from *settings) *cobra.Command {
	var part messages.StreamInput
	var limit int
	var upTo int64
	var check, follow bool
	var format outputFormat
	cmd := &cobra.Command{
		Use:   "stream ID",
		Short: "Show the messages of a stream, in order, and what became of them",
		Long: `Show the messages about one thing, such as an order, each once. Their order is that
of their versions; without versions, the order in which they were recorded. Missing
versions, and versions of several messages, are listed below. --to and
--up-to-version show the stream as it was, with what became of its messages until
now. --follow prints each new message, until Ctrl-C.

The setting streams says where messages have the id of their stream and their
version. To list streams: watership search --by stream.id`,
		Example: `  watership stream order-42
  watership stream order-42 --check --limit 1
  watership stream order-42 --to 2026-05-04T03:00:00Z
  watership stream order-42 --up-to-version 7
  watership stream replay order-42 --to-queue orders.rebuild --dry-run`,
		Args: exactArgs(1, "one id of a stream"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usagef("--limit %d: expected 0 (no limit) or more", limit)
			}
			if follow && (check || part.To != "" || cmd.Flags().Changed("up-to-version")) {
				return usagef("--follow cannot be combined with --check, --to or --up-to-version")
			}
			if cmd.Flags().Changed("up-to-version") {
				if upTo < 0 || upTo > eventstore.MaxSequence {
					return usagef("--up-to-version %d: expected 0 or more", upTo)
				}
				part.UpToVersion = strconv.FormatInt(upTo, 10)
			}
			part.ID = args[0]
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error {
				if follow {
					return followStream(ctx, sys, from.printer(cmd), part.ID, limit, format)
				}
				found, err := readStream(ctx, sys, part, limit)
				if err != nil {
					return err
				}
				to := from.printer(cmd)
				if err := to.stream(found, format); err != nil || !check {
					return err
				}
				return checkStream(found)
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "maximum number of messages; 0: no limit")
	cmd.Flags().BoolVar(&check, "check", false, "fail if versions are missing or double")
	addNonEmpty(cmd.Flags(), &part.To, "to", "only messages before this time")
	cmd.Flags().Int64Var(&upTo, "up-to-version", 0, "only messages with this version or a lower one")
	cmd.Flags().BoolVar(&follow, "follow", false, "print the newest messages up to --limit, as recorded, and then each new one")
	format.addFlag(cmd, "table", "json", "ndjson")
	cmd.AddCommand(newStreamReplay(from))
	return cmd
}

// newStreamReplay is `replay` with the query of a stream.
func newStreamReplay(from *settings) *cobra.Command {
	var r replay
	cmd := r.command(from)
	cmd.Use = "replay ID"
	cmd.Short = "Send the messages of a stream again, in order"
	cmd.Long = `Send each message of a stream once, in the order in which the messages were published.
The flags are those of 'watership replay', which has the details.`
	cmd.Example = `  watership stream replay order-42 --dry-run
  watership stream replay order-42 --to-queue orders.rebuild --again --yes`
	cmd.Args = exactArgs(1, "one id of a stream")
	replay := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r.stream = args[0]
		return replay(cmd, []string{history.StreamQuery(r.stream).String()})
	}
	return cmd
}

// orderAsPublished leaves only the published events of a stream in the query: a message may
// be handled, and recorded as that, before its published event is. Failed queues need the
// events of failures.
func (r *replay) orderAsPublished(ctx context.Context, sys backend) error {
	if r.stream == "" || r.toFailedQueue {
		return nil
	}
	found, err := readStream(ctx, sys, messages.StreamInput{ID: r.stream}, 1)
	if err != nil {
		return err
	}
	if found.Untapped > 0 || found.More {
		r.Warn("not every message of the stream was recorded when it was published: they are sent in the order of their first events")
		return nil
	}
	r.query += " and event.action: published"
	return nil
}

// followStream prints the published events of a stream as the store gets them.
func followStream(ctx context.Context, sys backend, to printer, id string, earlier int, format outputFormat) error {
	if format.is("json") {
		return usagef("--follow needs -o table or -o ndjson")
	}
	columns, err := fieldsNamed(sys, []string{"stream.version", "@timestamp", "destination.name", "routing_key", "message.id"})
	if err != nil {
		return err
	}
	if earlier == 0 {
		earlier = history.MaxStreamEvents
	}
	published := kql.And{history.StreamQuery(id), kql.FieldIs("event.action", string(schemas.Published))}
	selection := eventstore.Selection{Query: published, WithoutBody: format.is("table")}
	return sys.Follow(ctx, selection, earlier, &follower{printer: to, eventWriter: newEventWriter(sys, to, format, columns, true)})
}

// readStream returns a part of a stream with its first messages; limit 0: with all of them.
func readStream(ctx context.Context, sys backend, in messages.StreamInput, limit int) (whole history.Stream, err error) {
	if in.Limit = wholePage; in.To != "" {
		in.Zone = client.ZoneName(time.Local)
	}
	err = eachPage(func(cursor string) (string, error) {
		in.Cursor = cursor
		if limit > 0 {
			in.Limit = limit - len(whole.Messages)
		}
		page, err := messages.GetStream.Call(ctx, sys, in)
		if err != nil {
			return "", err
		}
		page.Body.Messages = append(whole.Messages, page.Body.Messages...)
		if whole = page.Body.Stream; limit > 0 && len(whole.Messages) >= limit {
			return "", nil
		}
		return page.Body.Cursor, nil
	})
	return whole, err
}

// checkStream returns the problems of versions as an error.
func checkStream(s history.Stream) error {
	switch {
	case s.More:
		return fmt.Errorf("stream %q has more than %d events: its versions cannot be checked", s.ID, history.MaxStreamEvents)
	case len(s.Gaps)+len(s.Doubles) == 0:
		return nil
	}
	return fmt.Errorf("stream %q has %s and %s", s.ID, wording.Plural(len(s.Gaps), "gap"), wording.Plural(len(s.Doubles), "double version"))
}

func (p printer) stream(s history.Stream, format outputFormat) error {
	if format.is("json") {
		return terminal.WriteIndentedJSON(p.Out, s)
	}
	return writeItems(p.Out, format, s.Messages, func() error { return p.streamTable(s) })
}

func (p printer) streamTable(s history.Stream) error {
	t := terminal.NewTable(p.Out, p.screen,
		terminal.Column{Title: "VERSION", Fixed: true, Right: true},
		terminal.Column{Title: "TIME", Fixed: true, Times: true, DropOrder: 2},
		terminal.Column{Title: "EXCHANGE", DropOrder: 3},
		terminal.Column{Title: "ROUTING KEY", DropOrder: 1},
		terminal.Column{Title: "MESSAGE"},
		terminal.Column{Title: "STATE"},
	)
	for _, m := range s.Messages {
		if err := t.Row(versionText(m), terminal.TimeCell(m.Time), exchangeName(m.Exchange), m.RoutingKey, cmp.Or(m.MessageID, m.Fingerprint), stateText(m)); err != nil {
			return err
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, line := range streamNotes(s) {
		if err := p.printf("%s", terminal.Cell(line, 0)); err != nil {
			return err
		}
	}
	return nil
}

func versionText(m history.StreamMessage) string {
	if m.Version == nil {
		return ""
	}
	return strconv.FormatInt(*m.Version, 10)
}

// stateText names what became of a message at each queue.
func stateText(m history.StreamMessage) string {
	if len(m.Queues) == 0 {
		return "published"
	}
	states := make([]string, len(m.Queues))
	for i, at := range m.Queues {
		states[i] = string(at.State) + " at " + at.Queue
	}
	return strings.Join(states, ", ")
}

const maxStreamNotes = 20 // of one kind

// byPriority returns the number of messages whose place RabbitMQ may have changed.
func byPriority(s history.Stream) (count int) {
	for _, m := range s.Messages {
		if m.ByPriority {
			count++
		}
	}
	return count
}

// streamNotes has the facts that the table does not show.
func streamNotes(s history.Stream) []string {
	shown := wording.Plural(s.Total, "message")
	if len(s.Messages) < s.Total {
		shown = fmt.Sprintf("the first %d of %s", len(s.Messages), shown)
	}
	notes := []string{map[string]string{"version": shown + ", by version", "sequence": shown + " without versions, as recorded"}[s.Order]}
	for _, gap := range s.Gaps[:min(len(s.Gaps), maxStreamNotes)] {
		notes = append(notes, gapText(gap))
	}
	names := map[string]string{} // of messages, as in the table
	for _, m := range s.Messages {
		names[m.Fingerprint] = cmp.Or(m.MessageID, m.Fingerprint)
	}
	for _, double := range s.Doubles[:min(len(s.Doubles), maxStreamNotes)] {
		of := make([]string, len(double.Fingerprints))
		for i, fingerprint := range double.Fingerprints {
			of[i] = cmp.Or(names[fingerprint], fingerprint)
		}
		notes = append(notes, fmt.Sprintf("double: version %d of %s", double.Version, strings.Join(of, ", ")))
	}
	for _, note := range []struct {
		applies bool
		text    string
	}{
		{len(s.Gaps) > maxStreamNotes || len(s.Doubles) > maxStreamNotes, fmt.Sprintf("in all %s and %s: -o json lists them", wording.Plural(len(s.Gaps), "gap"), wording.Plural(len(s.Doubles), "double version"))},
		{s.Without > 0, wording.Plural(s.Without, "message") + " without a version at the end"},
		{s.Untapped > 0, wording.Plural(s.Untapped, "message") + " that no tap recorded, in the order of their first events"},
		{s.Order == "sequence" && byPriority(s) > 0, wording.Plural(byPriority(s), "message") + " with a priority, which RabbitMQ may have delivered before earlier ones"},
		{s.Reversed > 0, wording.Plural(s.Reversed, "message") + " recorded before the version before; a replay sends them as recorded"},
		{s.More, fmt.Sprintf("only the first %d events of the stream are read", history.MaxStreamEvents)},
		{s.Limited && len(s.Gaps) > 0, "the token may not see all queues and exchanges: gaps may be what it does not see"},
	} {
		if note.applies {
			notes = append(notes, note.text)
		}
	}
	return notes
}

func gapText(gap history.VersionGap) string {
	if gap.From == gap.To {
		return fmt.Sprintf("gap: version %d is missing", gap.From)
	}
	return fmt.Sprintf("gap: versions %d to %d are missing", gap.From, gap.To)
}

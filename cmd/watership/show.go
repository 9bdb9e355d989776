package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/elastic"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

func newShow(from *settings) *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a message and its whole life",
		Long: `show takes a message id, a fingerprint, the id that a message got at its first
failure, or the id of an event, and prints the message as first published, and
every event of its life in order.`,
		Example: "  watership show 6f1c0b9e\n  watership show --raw 6f1c0b9e > body.bin",
		Args:    exactly(1, "one id"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := from.system(terminalOf(cmd))
			if err != nil {
				return err
			}
			store, err := s.store()
			if err != nil {
				return err
			}
			defer store.Close()
			events, err := life(cmd.Context(), store, args[0])
			if err != nil {
				return err
			}
			if raw {
				return writeRaw(cmd.OutOrStdout(), events)
			}
			return writeLives(cmd.OutOrStdout(), events)
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "print the exact bytes of the body and nothing else")
	return cmd
}

// life is every event of the messages that an id names, in order.
func life(ctx context.Context, store *elastic.Store, id string) ([]schemas.Event, error) {
	named, err := collect(ctx, store.Events(ctx, schemas.Selection{Query: about(id), WithoutBody: true}))
	if err != nil {
		return nil, err
	}
	if len(named) == 0 {
		return nil, fmt.Errorf("no message or event is called %q: expected a message id, a fingerprint or the id of an event", id)
	}
	fingerprints := map[string]bool{}
	var either query.Or
	for _, event := range named {
		if !fingerprints[event.Fingerprint] {
			fingerprints[event.Fingerprint] = true
			either = append(either, is("watership.fingerprint", event.Fingerprint))
		}
	}
	events, err := collect(ctx, store.Events(ctx, schemas.Selection{Query: either, Order: schemas.BySequence}))
	return inOrder(events), err
}

// inOrder sorts events by when they happened. Of a message that carries no time
// it is known only when the tap's copy was recorded, which may be after its
// first failure; it was published before anything else happened to it.
func inOrder(events []schemas.Event) []schemas.Event {
	type passage struct{ fingerprint, job string }
	first := map[passage]time.Time{}
	for _, e := range events {
		p := passage{e.Fingerprint, e.Replay}
		if earliest, seen := first[p]; e.Action != schemas.Replayed && (!seen || e.Time.Before(earliest)) {
			first[p] = e.Time
		}
	}
	happened := func(e schemas.Event) time.Time {
		if e.Action == schemas.Published && e.TimeSource == schemas.TimeTaken {
			return first[passage{e.Fingerprint, e.Replay}].Add(-1)
		}
		return e.Time
	}
	slices.SortStableFunc(events, func(a, b schemas.Event) int { return happened(a).Compare(happened(b)) })
	return events
}

// whole is an event that has the body, else the first.
func whole(events []schemas.Event) schemas.Event {
	for _, event := range events {
		if event.BodyIn == schemas.BodyHere {
			return event
		}
	}
	return events[0]
}

func writeRaw(out io.Writer, events []schemas.Event) error {
	event := whole(events)
	if event.BodyIn != schemas.BodyHere {
		return fmt.Errorf("no event of message %s has its body", event.Fingerprint)
	}
	_, err := out.Write(event.Envelope.Body)
	return err
}

// writeLives prints each message apart.
func writeLives(out io.Writer, events []schemas.Event) error {
	byFingerprint := map[string][]schemas.Event{}
	var order []string
	for _, event := range events {
		if byFingerprint[event.Fingerprint] == nil {
			order = append(order, event.Fingerprint)
		}
		byFingerprint[event.Fingerprint] = append(byFingerprint[event.Fingerprint], event)
	}
	var page bytes.Buffer
	for i, fingerprint := range order {
		if i > 0 {
			page.WriteString("\n")
		}
		message := whole(byFingerprint[fingerprint])
		writeProperties(&page, message)
		writeLife(&page, byFingerprint[fingerprint])
		writeHeaders(&page, message.Envelope.Headers)
		writeBody(&page, message)
	}
	_, err := out.Write(page.Bytes())
	return err
}

func writeProperties(out *bytes.Buffer, e schemas.Event) {
	p := e.Envelope.Properties
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(out, "%-14s %s\n", name, cell(value, 200))
		}
	}
	field("message", p.MessageID)
	field("fingerprint", e.Fingerprint)
	field("exchange", exchangeName(e.Envelope.Exchange))
	field("routing key", e.Envelope.RoutingKey)
	field("source", e.Source)
	field("type", p.Type)
	field("content type", p.ContentType)
	field("encoding", p.ContentEncoding)
	field("correlation id", p.CorrelationID)
	field("reply to", p.ReplyTo)
	field("expiration", p.Expiration)
	field("user id", p.UserID)
	field("app id", p.AppID)
	if !p.Timestamp.IsZero() {
		field("timestamp", p.Timestamp.UTC().Format(time.RFC3339))
	}
}

func writeHeaders(out *bytes.Buffer, headers amqp091.Table) {
	if len(headers) == 0 {
		return
	}
	out.WriteString("\nheaders\n")
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		fmt.Fprintf(out, "  %s = %s (%s)\n", cell(name, 60), cell(fmt.Sprint(headers[name]), 120), typeName(headers[name]))
	}
}

func typeName(value any) string {
	switch value.(type) {
	case nil:
		return "void"
	case []byte:
		return "bytes"
	case []any:
		return "array"
	case amqp091.Table:
		return "table"
	case time.Time:
		return "timestamp"
	case amqp091.Decimal:
		return "decimal"
	}
	return fmt.Sprintf("%T", value)
}

const bodyPreview = 4 << 10 // bytes

func writeBody(out *bytes.Buffer, e schemas.Event) {
	fmt.Fprintf(out, "\nbody (%s)\n", plural(e.BodySize, "byte"))
	body := e.Envelope.Body
	if e.BodyIn != schemas.BodyHere {
		out.WriteString("  not in the store\n")
		return
	}
	var pretty bytes.Buffer
	switch {
	case json.Valid(body) && json.Indent(&pretty, body, "  ", "  ") == nil:
		body = pretty.Bytes()
	case !utf8.Valid(body):
		body = []byte(hex.Dump(body[:min(len(body), bodyPreview/4)]))
	}
	shown := body[:min(len(body), bodyPreview)]
	fmt.Fprintf(out, "  %s\n", bytes.ToValidUTF8(bytes.ReplaceAll(shown, []byte{0x1b}, []byte("^[")), []byte("�")))
	if len(shown) < len(body) {
		out.WriteString("  … (--raw prints all of it)\n")
	}
}

func writeLife(out *bytes.Buffer, events []schemas.Event) {
	out.WriteString("\nlife\n")
	for _, e := range events {
		fmt.Fprintf(out, "  %s  %-15s %s\n", oneLine(e.Time), e.Action, stepText(e))
	}
}

// stepText says what an event is about.
func stepText(e schemas.Event) string {
	text := ""
	if e.Attempt > 0 {
		text = fmt.Sprintf("attempt %d at queue %s", e.Attempt, cell(e.Queue, 60))
	}
	switch e.Action {
	case schemas.Published:
		text = fmt.Sprintf("to exchange %s, routing key %s", exchangeName(e.Envelope.Exchange), cell(e.Envelope.RoutingKey, 60))
		if e.TimeSource == schemas.TimeTaken {
			text += ", recorded at this time"
		}
	case schemas.Handled:
		text += fmt.Sprintf(", took %s", e.Duration.Round(time.Microsecond))
	case schemas.RetryScheduled:
		text += fmt.Sprintf(", again in %s: %s", e.Delay, cell(e.Failure.Message, 120))
	case schemas.Poisoned:
		text += ": " + cell(e.Failure.Message, 120)
	case schemas.Replayed:
		text = "of event " + e.ReplayOf
	case schemas.Quarantined:
		text = fmt.Sprintf("stands for the %s event: %s", e.QuarantinedAction, cell(e.Failure.Message, 120))
	}
	if e.Replay != "" {
		text += " (job " + e.Replay + ")"
	}
	return text
}

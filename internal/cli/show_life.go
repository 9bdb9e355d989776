package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/render/columns"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

func (p *page) properties(e schemas.Event) {
	properties := e.Envelope.Properties
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(p, "%-14s %s\n", name, terminal.Cell(value, terminal.MaxCellWidth))
		}
	}
	field("message", properties.MessageID)
	field("fingerprint", e.Fingerprint)
	field("exchange", exchangeName(e.Envelope.Exchange))
	field("routing key", e.Envelope.RoutingKey)
	if e.OriginClaimed {
		field("origin", "exchange and routing key as a consumer claims")
	}
	field("source", e.Source)
	field("type", properties.Type)
	field("content type", properties.ContentType)
	field("encoding", properties.ContentEncoding)
	field("correlation id", properties.CorrelationID)
	field("reply to", properties.ReplyTo)
	field("expiration", properties.Expiration)
	field("user id", properties.UserID)
	field("app id", properties.AppID)
	if properties.Priority > 0 {
		field("priority", fmt.Sprint(properties.Priority))
	}
	if !properties.Timestamp.IsZero() {
		field("timestamp", properties.Timestamp.UTC().Format(time.RFC3339))
	}
}

// life writes the timeline: the time, the time since the step before, and the event.
func (p *page) life(l history.Life) {
	p.title(p.screen.TimesTitle("timeline"))
	if l.More {
		fmt.Fprintf(p, "  … (there are more; the newest %d are shown)\n", len(l.Events))
	}
	var before time.Time
	for _, e := range l.Events {
		since := ""
		if gap := e.Time.Sub(before); !before.IsZero() && gap >= 0 {
			since = "+" + shortDuration(gap)
		}
		before = e.Time
		if e.TimeSource == wire.TimeOfIngest { // it was published some time before
			before = time.Time{}
		}
		action := p.screen.Paint(fmt.Sprintf("%-15s", terminal.Cell(string(e.Action), 60)), actionColours()[string(e.Action)])
		fmt.Fprintf(p, "  %s  %9s  %s %s\n", terminal.TimeCell(e.Time), since, action, stepText(e, l.Events))
	}
}

// stepText describes an event.
func stepText(e schemas.Event, life []schemas.Event) string {
	text := attemptAtQueue(e)
	switch e.Action {
	case schemas.Published:
		text = "to exchange " + exchangeName(e.Envelope.Exchange)
		if e.Envelope.RoutingKey != "" {
			text += ", routing key " + terminal.Cell(e.Envelope.RoutingKey, 60)
		}
		if e.TimeSource == wire.TimeOfIngest {
			text += ", recorded at this time"
		}
	case schemas.Handled:
		text += durationText(e, ", took ")
	case schemas.RetryScheduled:
		text += durationText(e, " failed after ") + waitsText(e) + fmt.Sprintf(", again in %s: %s", e.Delay, terminal.Cell(e.Failure.Message, 120))
	case schemas.Poisoned:
		text += durationText(e, " failed after ") + ": " + terminal.Cell(e.Failure.Message, 120)
	case schemas.Replayed:
		text = "sent again" + replayedEventText(e.ReplayOf, life)
	case schemas.Discarded, schemas.Dropped, schemas.Paused, schemas.Resumed:
		text = terminal.Cell(e.Failure.Message, 120)
	case schemas.Rescheduled:
		text += fmt.Sprintf(", again in %s, as %s decided: %s", e.Delay.Round(time.Millisecond), terminal.Cell(e.Audit.User, 60), terminal.Cell(e.Audit.Reason, 120))
	case schemas.Audited:
		text = terminal.Cell(columns.AuditText(e), 200)
	case schemas.Triaged:
		text = terminal.Cell(columns.Clock(terminal.Time).TriageText(e), 200)
	case schemas.Quarantined:
		text = quarantinedText(e)
	}
	if e.Replay != "" {
		text += " (job " + terminal.Cell(e.Replay, 60) + ")"
	}
	return text
}

func quarantinedText(e schemas.Event) string {
	why := terminal.Cell(e.Failure.Message, 120)
	refused, ok := e.Refused()
	action := terminal.Cell(string(refused.Action), 60)
	switch {
	case !ok:
		return "in the log, and no event: " + why
	case refused.Failure.Message != "":
		return fmt.Sprintf("stands for the %s event (%s), which the store refused: %s", action, terminal.Cell(refused.Failure.Message, 120), why)
	}
	return fmt.Sprintf("stands for the %s event, which the store refused: %s", action, why)
}

// attemptAtQueue names an attempt; a message that only waited has none yet.
func attemptAtQueue(e schemas.Event) string {
	if e.Attempt == 0 || e.AwaitsKey() {
		return ""
	}
	if e.Queue == "" { // as of a report that names none
		return fmt.Sprintf("attempt %d", e.Attempt)
	}
	return fmt.Sprintf("attempt %d at queue %s", e.Attempt, terminal.Cell(e.Queue, 60))
}

// waitsText says why a message waits without an attempt, or how often it has waited for its service.
func waitsText(e schemas.Event) string {
	queue := terminal.Cell(e.Queue, 60)
	switch {
	case e.AwaitsKey():
		return "waits at queue " + queue + " for its key, whose messages fail"
	case e.Waits == 0 && e.Attempt == 0:
		return "waits at queue " + queue
	case e.Waits == 0:
		return ""
	case e.Attempt == 0:
		return fmt.Sprintf("waits at queue %s, %s so far", queue, wording.Plural(e.Waits, "time"))
	}
	return fmt.Sprintf(", waited %s", wording.Plural(e.Waits, "time"))
}

func durationText(e schemas.Event, prefix string) string {
	if e.Duration <= 0 || e.Attempt == 0 {
		return ""
	}
	return prefix + shortDuration(e.Duration)
}

// replayedEventText names the replayed event by its action and time, or by its id if the life does
// not have it.
func replayedEventText(id string, life []schemas.Event) string {
	for _, e := range life {
		if e.EventID == id {
			return fmt.Sprintf(", from what was %s at %s", terminal.Cell(string(e.RecordedAction()), 60), terminal.Time(e.Time))
		}
	}
	return ", from event " + terminal.Cell(id, 120)
}

// failure writes the newest failure in full.
func (p *page) failure(ctx context.Context, sys operation.Via, events []schemas.Event) error {
	var last schemas.Event
	for _, e := range events {
		if e.Action != schemas.Discarded && e.Failure.Message != "" {
			last = e
		}
	}
	if last.EventID == "" {
		return nil
	}
	whole, err := messages.GetEvent.Call(ctx, sys, messages.EventInput{ID: last.EventID})
	switch {
	case isRefused(err, code.NotFound): // it is too old by now
	case err != nil:
		return err
	default:
		if last, err = schemas.ParseDocument(whole.Body); err != nil {
			return err
		}
	}
	failure := last.Failure
	if failure.Type == "" && failure.Class == "" && failure.Stack == "" && !strings.Contains(failure.Message, "\n") && len(failure.Message) <= 120 {
		return nil // the timeline has all of it
	}
	p.title("last failure")
	p.block(failure.Message)
	if failure.Type != "" {
		fmt.Fprintf(p, "  type %s\n", terminal.Cell(failure.Type, terminal.MaxCellWidth))
	}
	if failure.Class != "" {
		fmt.Fprintf(p, "  class %s\n", terminal.Cell(chosenBy(failure.Class, failure.Rule), terminal.MaxCellWidth))
	}
	p.block(failure.Stack)
	return nil
}

// block writes the lines of an untrusted text, or the first of them.
func (p *page) block(text string) {
	if len(text) > bodyPreview {
		text = strings.ToValidUTF8(text[:bodyPreview], "") + "\n…"
	}
	for line := range strings.Lines(text) {
		fmt.Fprintf(p, "  %s\n", terminal.Escaped(strings.TrimRight(line, "\r\n")))
	}
}

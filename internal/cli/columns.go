package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/render/columns"
	"github.com/watershipmq/watership/schemas"
)

// field is a column of a list of events.
type field struct {
	terminal.Column
	name  string                     // in the document
	value func(schemas.Event) string // nil: the value in the document
}

// usualFields returns the columns without --fields.
func usualFields() []field {
	return []field{
		{terminal.Column{Title: "TIME", Fixed: true, Times: true}, "@timestamp", func(e schemas.Event) string { return terminal.TimeCell(e.Time) }},
		{terminal.Column{Title: "ACTION", Fixed: true, Colours: actionColours()}, "event.action", actionText},
		{terminal.Column{Title: "EXCHANGE", DropOrder: 4}, "messaging.destination.name", exchangeOf},
		{terminal.Column{Title: "ROUTING KEY", DropOrder: 3}, "messaging.rabbitmq.destination.routing_key", func(e schemas.Event) string { return e.Envelope.RoutingKey }},
		{terminal.Column{Title: "QUEUE", DropOrder: 1}, "watership.queue", func(e schemas.Event) string { return e.Queue }},
		{terminal.Column{Title: "ATTEMPT", Fixed: true, DropOrder: 5}, "watership.attempt", attemptText},
		{terminal.Column{Title: "MESSAGE"}, "messaging.message.id", columns.MessageID},
		{terminal.Column{Title: "ERROR", DropOrder: 2}, "error.message", columns.Clock(terminal.Time).ErrorText},
	}
}

// timeOf returns the column of the time by which an order sorts; false if it sorts by none.
func timeOf(order eventstore.Order) (column field, ok bool) {
	times := map[eventstore.Order]struct {
		title string
		of    func(schemas.Event) time.Duration
	}{
		eventstore.SlowestInQueue:   {"IN QUEUE", func(e schemas.Event) time.Duration { return e.QueueTime }},
		eventstore.SlowestInHandler: {"HANDLER", func(e schemas.Event) time.Duration { return e.Duration }},
		eventstore.SlowestInTotal:   {"TOTAL", func(e schemas.Event) time.Duration { return e.TotalTime }},
	}
	chosen, ok := times[order]
	return field{
		terminal.Column{Title: chosen.title, Fixed: true, Right: true},
		order.Time(),
		func(e schemas.Event) string { return shortDuration(chosen.of(e)) },
	}, ok
}

// actionText names the action by which a query finds the event, and says whether the store
// has refused it.
func actionText(e schemas.Event) string {
	if refused, ok := e.Refused(); ok {
		return string(refused.Action) + quarantinedMark
	}
	return string(e.Action)
}

const quarantinedMark = " (quarantined)"

func actionColours() map[string]terminal.Colour {
	colours := map[string]terminal.Colour{
		string(schemas.Poisoned): terminal.Red, string(schemas.Quarantined): terminal.Red, string(schemas.Dropped): terminal.Red, string(schemas.Paused): terminal.Red, string(schemas.RetryScheduled): terminal.Yellow,
		string(schemas.Handled): terminal.Green, string(schemas.Replayed): terminal.Cyan,
	}
	for _, action := range actions() {
		colours[action+quarantinedMark] = terminal.Red
	}
	return colours
}

// fieldsNamed returns the fields with full or short names.
func fieldsNamed(lang language, names []string) ([]field, error) {
	var list []field
	for _, name := range names {
		full, err := lang.Field(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		f := field{Column: terminal.Column{Title: full.Name}, name: full.Name}
		if full.Type == kql.Date {
			f.value = func(e schemas.Event) string { return localTime(newDocument(lang, e).Text(full.Name)) }
		}
		list = append(list, f)
	}
	return list, nil
}

// needsBody reports whether a column shows the body, which must be read then.
func needsBody(fields []field) bool {
	for _, f := range fields {
		if strings.HasPrefix(f.name, "body.") || f.name == "body" {
			return true
		}
	}
	return false
}

// newDocument returns the document that the store has of an event.
func newDocument(lang language, e schemas.Event) columns.Document {
	document, err := columns.Parse(lang.DocumentFormat().Append(nil, e))
	if err != nil {
		panic(fmt.Sprintf("a document that we wrote is no JSON: %v", err))
	}
	return document
}

func tableColumns(fields []field) []terminal.Column {
	shown := make([]terminal.Column, len(fields))
	for i, f := range fields {
		shown[i] = f.Column
	}
	return shown
}

package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/internal/wording"
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
		{terminal.Column{Title: "TIME", Fixed: true}, "@timestamp", func(e schemas.Event) string { return wording.Time(e.Time) }},
		{terminal.Column{Title: "ACTION", Fixed: true, Colours: actionColours()}, "event.action", actionText},
		{terminal.Column{Title: "EXCHANGE", DropOrder: 4}, "messaging.destination.name", func(e schemas.Event) string { return exchangeName(e.Envelope.Exchange) }},
		{terminal.Column{Title: "ROUTING KEY", DropOrder: 3}, "messaging.rabbitmq.destination.routing_key", func(e schemas.Event) string { return e.Envelope.RoutingKey }},
		{terminal.Column{Title: "QUEUE", DropOrder: 1}, "watership.queue", func(e schemas.Event) string { return e.Queue }},
		{terminal.Column{Title: "ATTEMPT", Fixed: true, DropOrder: 5}, "watership.attempt", attemptText},
		{terminal.Column{Title: "MESSAGE"}, "messaging.message.id", idForShow},
		{terminal.Column{Title: "ERROR", DropOrder: 2}, "error.message", eventError},
	}
}

// eventError returns the failure of an event, and what somebody did in an audit event.
func eventError(e schemas.Event) string {
	if e.RecordedAction() == schemas.Audited {
		return auditText(e)
	}
	return e.Failure.Message
}

// auditText tells who did what, from where, why, and whether it was refused.
func auditText(e schemas.Event) string {
	user := "nobody known"
	if e.Audit.User != "" {
		user = fmt.Sprintf("%s (%s)", e.Audit.User, e.Audit.Method)
	}
	text := fmt.Sprintf("%s %s by %s from %s", e.Audit.Operation, e.Audit.Object, user, e.Audit.Address)
	if e.Audit.Reason != "" {
		text += ": " + e.Audit.Reason
	}
	if e.Audit.Refused {
		text = fmt.Sprintf("refused or failed (%s): %s", strings.TrimSuffix(e.Failure.Type+": "+e.Failure.Message, ": "), text)
	}
	return text
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
			f.value = func(e schemas.Event) string { return localTime(newRecord(lang, e).text(full.Name)) }
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

// record has the fields of an event's document by name.
type record map[string]any

func newRecord(lang language, e schemas.Event) record {
	decoder := json.NewDecoder(bytes.NewReader(lang.DocumentFormat().Append(nil, e)))
	decoder.UseNumber() // a sequence is more than a float64 holds
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		panic(fmt.Sprintf("a document that we wrote is no JSON: %v", err))
	}
	return fields
}

// at returns a value by a name with dots. A key may have dots itself, as in headers: at
// prefers the longest existing key.
func (r record) at(name string) (any, bool) {
	if value, found := r[name]; found {
		return value, true
	}
	for end := len(name) - 1; end > 0; end-- {
		if name[end] != '.' {
			continue
		}
		nested, _ := r[name[:end]].(map[string]any)
		if value, found := record(nested).at(name[end+1:]); found {
			return value, true
		}
	}
	return nil, false
}

func (r record) text(name string) string {
	value, found := r.at(name)
	if !found {
		return ""
	}
	switch v := value.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	text, _ := json.Marshal(value) // it came from JSON
	return string(text)
}

func tableColumns(fields []field) []terminal.Column {
	columns := make([]terminal.Column, len(fields))
	for i, f := range fields {
		columns[i] = f.Column
	}
	return columns
}

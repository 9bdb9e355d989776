package columns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/watershipmq/watership/eventstore/kql"
)

// Column is a column of a list of events.
type Column struct {
	Name  string // full name of the field
	Short string // shortest name
	Title string
	Kind  Kind
}

// Kind is the way in which the values of a column are shown.
type Kind string

// The kinds.
const (
	Text     Kind = "text"
	Number   Kind = "number"
	Time     Kind = "time"
	Action   Kind = "action"
	Exchange Kind = "exchange"
	Message  Kind = "message"
	Failure  Kind = "error"
)

// Usual returns the names of the columns of a list without a choice.
func Usual() []string {
	return []string{
		"@timestamp", "event.action", "messaging.destination.name", "messaging.rabbitmq.destination.routing_key",
		"watership.queue", "watership.attempt", "messaging.message.id", "error.message",
	}
}

// Find returns the columns with full or short names. Its errors are *kql.FieldErrors.
func Find(fields kql.Fields, names []string) ([]Column, error) {
	list := make([]Column, len(names))
	for i, name := range names {
		node, err := kql.Resolve(kql.Exists{Field: kql.Pattern{name}}, fields)
		if err != nil {
			return nil, err
		}
		full := node.(kql.Exists).Field.Text()
		field, is := fields.Lookup(full)
		if !is || strings.Contains(full, "*") {
			return nil, &kql.FieldError{Field: name, Problem: fmt.Sprintf("%q is not one field", name), Hint: "Name a field below it."}
		}
		list[i] = Column{Name: full, Short: fields.Short(full), Title: fields.Short(full), Kind: kindOf(field)}
		if at := slices.Index(Usual(), full); at >= 0 {
			list[i].Title = usualTitles()[at]
		}
	}
	return list, nil
}

func usualTitles() []string {
	return []string{"Time", "Action", "Exchange", "Routing key", "Queue", "Attempt", "Message", "Error"}
}

func kindOf(field kql.Field) Kind {
	switch field.Name {
	case "event.action":
		return Action
	case "messaging.destination.name":
		return Exchange
	case "messaging.message.id":
		return Message
	case "error.message":
		return Failure
	}
	switch field.Type {
	case kql.Date:
		return Time
	case kql.Long, kql.Double:
		return Number
	}
	return Text
}

// OfBody reports whether the values are parts of bodies.
func (c Column) OfBody() bool { return strings.HasPrefix(c.Name, "body.") }

// Package edit changes headers and properties of messages, by texts that an operator
// writes:
//
//	changes := edit.Changes{Set: []string{"tenant=acme", "attempts:int=3"}, Remove: []string{"trace"}}
//	if err := changes.Check(); err != nil {
//		return err
//	}
//	message = changes.Apply(message)
//
// It does not change bodies: publish another message for that.
package edit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// Changes are changes of the headers and properties of a message. A changed message has
// another fingerprint: to its consumer, it is another message. The zero value changes
// nothing.
type Changes struct {
	// Clear removes all headers except CC, which is part of the message's route, and the
	// headers named by Keep. A header that the message does not have is not kept.
	Clear bool     `json:"clear,omitempty"`
	Keep  []string `json:"keep,omitempty"`

	Set    []string `json:"set,omitempty"` // headers: NAME=VALUE, or NAME:TYPE=VALUE with one of HeaderTypes
	Remove []string `json:"remove,omitempty"`

	// SetProperties are NAME=VALUE with one of Properties, as the names are in
	// AMQP 0-9-1 §1.8.1. The expiration is in milliseconds, the timestamp as in RFC 3339.
	SetProperties []string `json:"set_properties,omitempty"`

	// RemoveProperties are names of Properties. Without reply_to the client
	// of a request gets no second reply.
	RemoveProperties []string `json:"remove_properties,omitempty"`
}

// HeaderTypes returns the types of a header in ParseHeader. Without a type a header is
// a string.
func HeaderTypes() []string { return []string{"string", "int", "float", "bool", "time"} }

// Check validates the changes. Each header and each property may be changed once.
func (c Changes) Check() error {
	if len(c.Keep) > 0 && !c.Clear {
		return fmt.Errorf("header %q is to be kept, and no header is removed: clear the headers, too", c.Keep[0])
	}
	changed := map[string]bool{}
	check := func(name string) error {
		if err := checkHeaderName(name); err != nil {
			return err
		}
		if changed[name] {
			return fmt.Errorf("header %q is changed twice: set, keep or remove it once", name)
		}
		changed[name] = true
		return checkReplayed(name)
	}
	for _, text := range c.Set {
		name, _, err := ParseHeader(text)
		if err != nil {
			return err
		}
		if err := check(name); err != nil {
			return err
		}
	}
	for _, name := range slices.Concat(c.Remove, c.Keep) {
		if err := check(name); err != nil {
			return err
		}
	}
	return c.checkProperties()
}

// Equal reports whether two lists of changes are the same.
func (c Changes) Equal(other Changes) bool {
	return c.Clear == other.Clear && slices.Equal(c.Keep, other.Keep) &&
		slices.Equal(c.Set, other.Set) && slices.Equal(c.Remove, other.Remove) &&
		slices.Equal(c.SetProperties, other.SetProperties) && slices.Equal(c.RemoveProperties, other.RemoveProperties)
}

// Empty reports whether a message stays as it is.
func (c Changes) Empty() bool { return c.Equal(Changes{}) }

// Apply returns the envelope with copied and changed headers and properties. It skips a
// text that cannot be parsed, which Check reports.
func (c Changes) Apply(e schemas.Envelope) schemas.Envelope {
	if c.Empty() {
		return e
	}
	headers := maps.Clone(e.Headers)
	if headers == nil {
		headers = amqp.Table{}
	}
	if c.Clear {
		maps.DeleteFunc(headers, func(name string, _ any) bool { return name != "CC" && !slices.Contains(c.Keep, name) })
	}
	for _, name := range c.Remove {
		delete(headers, name)
	}
	for _, text := range c.Set {
		if name, value, err := ParseHeader(text); err == nil {
			headers[name] = value
		}
	}
	e.Headers = headers
	c.changeProperties(&e.Properties)
	return e
}

// ParseHeader parses NAME=VALUE, or NAME:TYPE=VALUE with one of HeaderTypes; a name
// with a colon needs a type. Its errors name the header.
func ParseHeader(text string) (name string, value any, err error) {
	left, right, found := strings.Cut(text, "=")
	if !found {
		return "", nil, fmt.Errorf("header %q: expected NAME=VALUE or NAME:TYPE=VALUE", text)
	}
	name, kind := left, "string"
	if at := strings.LastIndexByte(left, ':'); at >= 0 {
		name, kind = left[:at], left[at+1:]
	}
	if err := checkHeaderName(name); err != nil {
		return "", nil, err
	}
	value, err = headerValue(kind, right)
	if err != nil {
		return "", nil, fmt.Errorf("header %s: %w", left, err)
	}
	return name, value, nil
}

func headerValue(kind, text string) (value any, err error) {
	switch kind {
	case "string":
		return text, nil
	case "int":
		value, err = strconv.ParseInt(text, 10, 64)
	case "float":
		value, err = strconv.ParseFloat(text, 64)
	case "bool":
		value, err = strconv.ParseBool(text)
	case "time":
		value, err = time.Parse(time.RFC3339, text)
	default:
		return nil, fmt.Errorf("type %q: expected one of %s", kind, strings.Join(HeaderTypes(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("%q is no %s", text, kind)
	}
	return value, nil
}

func checkHeaderName(name string) error {
	if name == "" || len(name) > 255 {
		return fmt.Errorf("header %q: expected a name of 1 to 255 bytes", name)
	}
	return nil
}

// checkReplayed refuses the headers that are never replayed: headers that RabbitMQ
// sets, and Watership's own.
func checkReplayed(name string) error {
	switch {
	case header.SetByBroker(name):
		return fmt.Errorf("header %s cannot be changed: RabbitMQ writes it, and it is never replayed", name)
	case strings.HasPrefix(name, "watership-"):
		return fmt.Errorf("header %s cannot be changed: it is Watership's own, and never replayed", name)
	}
	return nil
}

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

	"github.com/watershipmq/watership/schemas"
)

// Changes are changes of the headers and properties of a message. A changed message has another fingerprint: to its consumer, it is another message. The zero value
// changes nothing.
type Changes struct {
	Set    []string `json:"set,omitempty"` // headers: NAME=VALUE, or NAME:TYPE=VALUE with one of HeaderTypes
	Remove []string `json:"remove,omitempty"`

	// RemoveProperties are names of RemovableProperties. Without reply_to the client
	// of a request gets no second reply.
	RemoveProperties []string `json:"remove_properties,omitempty"`
}

// HeaderTypes returns the types of a header in ParseHeader. Without a type a header is
// a string.
func HeaderTypes() []string { return []string{"string", "int", "float", "bool", "time"} }

// RemovableProperties returns the properties that Changes can remove.
func RemovableProperties() []string {
	return []string{"correlation_id", "expiration", "priority", "reply_to"}
}

// Check validates the changes. Each header may be changed once.
func (c Changes) Check() error {
	changed := map[string]bool{}
	check := func(name string) error {
		if changed[name] {
			return fmt.Errorf("header %q is changed twice: set or remove it once", name)
		}
		changed[name] = true
		return checkReplayed(name)
	}
	for _, text := range c.Set {
		name, _, err := ParseHeader(text)
		if err == nil {
			err = check(name)
		}
		if err != nil {
			return err
		}
	}
	for _, name := range c.Remove {
		if err := checkHeaderName(name); err != nil {
			return err
		}
		if err := check(name); err != nil {
			return err
		}
	}
	return checkRemoved(c.RemoveProperties)
}

func checkRemoved(properties []string) error {
	for i, name := range properties {
		switch {
		case !slices.Contains(RemovableProperties(), name):
			return fmt.Errorf("property %q cannot be removed: expected one of %s", name, strings.Join(RemovableProperties(), ", "))
		case slices.Contains(properties[:i], name):
			return fmt.Errorf("property %q is removed twice", name)
		}
	}
	return nil
}

// Equal reports whether two lists of changes are the same.
func (c Changes) Equal(other Changes) bool {
	return slices.Equal(c.Set, other.Set) && slices.Equal(c.Remove, other.Remove) && slices.Equal(c.RemoveProperties, other.RemoveProperties)
}

// Empty reports whether a message stays as it is.
func (c Changes) Empty() bool {
	return len(c.Set) == 0 && len(c.Remove) == 0 && len(c.RemoveProperties) == 0
}

// Apply returns the envelope with copied and changed headers and properties. It skips a
// header that cannot be parsed, which Check reports.
func (c Changes) Apply(e schemas.Envelope) schemas.Envelope {
	if c.Empty() {
		return e
	}
	headers := maps.Clone(e.Headers)
	if headers == nil {
		headers = amqp.Table{}
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
	for _, name := range c.RemoveProperties {
		removeProperty(&e.Properties, name)
	}
	return e
}

func removeProperty(p *schemas.Properties, name string) {
	switch name {
	case "correlation_id":
		p.CorrelationID = ""
	case "expiration":
		p.Expiration = ""
	case "priority":
		p.Priority = 0
	case "reply_to":
		p.ReplyTo = ""
	}
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
	case schemas.SetByBroker(name):
		return fmt.Errorf("header %s cannot be changed: RabbitMQ writes it, and it is never replayed", name)
	case strings.HasPrefix(name, "watership-"):
		return fmt.Errorf("header %s cannot be changed: it is Watership's own, and never replayed", name)
	}
	return nil
}

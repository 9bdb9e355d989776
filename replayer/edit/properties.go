package edit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// property sets one property of a message. An empty text removes it.
type property func(p *schemas.Properties, text string) error

func setters() map[string]property {
	return map[string]property{
		"app_id":           text(func(p *schemas.Properties) *string { return &p.AppID }),
		"content_encoding": text(func(p *schemas.Properties) *string { return &p.ContentEncoding }),
		"content_type":     text(func(p *schemas.Properties) *string { return &p.ContentType }),
		"correlation_id":   text(func(p *schemas.Properties) *string { return &p.CorrelationID }),
		"reply_to":         text(func(p *schemas.Properties) *string { return &p.ReplyTo }),
		"type":             text(func(p *schemas.Properties) *string { return &p.Type }),
		"expiration":       setExpiration,
		"priority":         setPriority,
		"timestamp":        setTimestamp,
	}
}

// Properties returns the names of the properties that Changes can set and remove, sorted.
// The message id is not one of them, since consumers know a message by it, and neither is
// the user id, which the broker checks.
func Properties() []string { return slices.Sorted(maps.Keys(setters())) }

func (c Changes) checkProperties() error {
	changed := map[string]bool{}
	check := func(name, verb string) error {
		switch {
		case setters()[name] == nil:
			return fmt.Errorf("property %q cannot be %s: expected one of %s", name, verb, strings.Join(Properties(), ", "))
		case changed[name]:
			return fmt.Errorf("property %q is changed twice: set or remove it once", name)
		}
		changed[name] = true
		return nil
	}
	for _, text := range c.SetProperties {
		name, value, found := strings.Cut(text, "=")
		if !found || value == "" {
			return fmt.Errorf("property %q: expected NAME=VALUE", text)
		}
		if err := check(name, "set"); err != nil {
			return err
		}
		if err := setters()[name](&schemas.Properties{}, value); err != nil {
			return fmt.Errorf("property %s: %w", name, err)
		}
	}
	for _, name := range c.RemoveProperties {
		if err := check(name, "removed"); err != nil {
			return err
		}
	}
	return nil
}

func (c Changes) changeProperties(p *schemas.Properties) {
	all := setters()
	for _, name := range c.RemoveProperties {
		if set := all[name]; set != nil {
			_ = set(p, "")
		}
	}
	for _, text := range c.SetProperties {
		name, value, _ := strings.Cut(text, "=")
		if set := all[name]; set != nil {
			_ = set(p, value) // Check reports the error
		}
	}
}

// maxText is the length of a short string (AMQP 0-9-1 §4.2.5.3).
const maxText = 255 // bytes

func text(field func(*schemas.Properties) *string) property {
	return func(p *schemas.Properties, text string) error {
		if len(text) > maxText {
			return fmt.Errorf("it has %d bytes: expected at most %d", len(text), maxText)
		}
		*field(p) = text
		return nil
	}
}

// setExpiration accepts the milliseconds that RabbitMQ accepts
// (https://www.rabbitmq.com/docs/ttl#per-message-ttl-in-publishers).
func setExpiration(p *schemas.Properties, text string) error {
	if _, err := strconv.ParseUint(text, 10, 32); err != nil && text != "" {
		return fmt.Errorf("%q: expected milliseconds, from 0 to 4294967295", text)
	}
	p.Expiration = text
	return nil
}

func setPriority(p *schemas.Properties, text string) error {
	priority, err := strconv.ParseUint(text, 10, 8)
	if err != nil && text != "" {
		return fmt.Errorf("%q: expected a number from 0 to 255", text)
	}
	p.Priority = uint8(priority)
	return nil
}

func setTimestamp(p *schemas.Properties, text string) error {
	timestamp, err := time.Parse(time.RFC3339, text)
	if err != nil && text != "" {
		return fmt.Errorf("%q: expected a time such as 2026-05-04T03:02:01Z", text)
	}
	p.Timestamp = timestamp
	return nil
}

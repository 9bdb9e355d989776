// Package target makes the targets of HTTP requests of templates and the fields of a
// message, such as https://{headers.merchant_host}/hooks/{body.json.merchant.id}, and
// checks the hosts and addresses that a message may choose.
package target

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Field is a value of a message that a template names.
type Field struct {
	Name    string // as in the template, such as headers.tenant
	Header  string // of the message; "": none
	Pointer string // JSON pointer (RFC 6901) into the body; "": none
	Word    int    // of the routing key: 1 is the first, -1 the last; 0: none
}

// Names of the fields that are properties of a message.
const (
	Exchange      = "exchange"
	RoutingKey    = "routing_key"
	MessageID     = "message.id"
	CorrelationID = "correlation_id"
	Type          = "type"
)

// Template is text with fields.
type Template struct{ parts []part }

// part is text, or a field if that has a name.
type part struct {
	text  string
	field Field
}

// Value returns the value of a field of a message.
type Value func(Field) (string, error)

// ParseTemplate parses text with fields in braces. Its errors quote a field only, as the
// text around it may be secret.
func ParseTemplate(text string) (Template, error) {
	var t Template
	for text != "" {
		literal, rest, found := strings.Cut(text, "{")
		if strings.Contains(literal, "}") {
			return Template{}, errors.New("expected { before }; in a URL a brace is written as %7B or %7D")
		}
		if literal != "" {
			t.parts = append(t.parts, part{text: literal})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || strings.HasPrefix(rest, "{") {
			return Template{}, errors.New("expected fields such as {headers.NAME}, in one pair of braces; in a URL a brace is written as %7B or %7D")
		}
		field, err := parseField(name)
		if err != nil {
			return Template{}, err
		}
		t.parts = append(t.parts, part{field: field})
		text = after
	}
	return t, nil
}

func parseField(name string) (Field, error) {
	if slices.Contains([]string{Exchange, RoutingKey, MessageID, CorrelationID, Type}, name) {
		return Field{Name: name}, nil
	}
	if header, ok := strings.CutPrefix(name, "headers."); ok && header != "" {
		return Field{Name: name, Header: header}, nil
	}
	if number, ok := strings.CutPrefix(name, RoutingKey+"."); ok {
		if word, err := strconv.Atoi(number); err == nil && word != 0 && -longestKey <= word && word <= longestKey {
			return Field{Name: name, Word: word}, nil
		}
	}
	if path, ok := strings.CutPrefix(name, "body.json."); ok && !slices.Contains(strings.Split(path, "."), "") {
		escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(path)
		return Field{Name: name, Pointer: "/" + strings.ReplaceAll(escaped, ".", "/")}, nil
	}
	if pointer, ok := strings.CutPrefix(name, "body:"); ok && strings.HasPrefix(pointer, "/") {
		return Field{Name: name, Pointer: pointer}, nil
	}
	return Field{}, fmt.Errorf("found {%s}: expected {headers.NAME}, {body.json.NAME}, {body:/JSON/POINTER}, {%s}, {%s}, {%[3]s.1}, {%[4]s}, {%s} or {%s}",
		name, Exchange, RoutingKey, MessageID, CorrelationID, Type)
}

// longestKey is the length of the longest routing key, in bytes.
const longestKey = 255

// HasFields reports whether the result differs between messages.
func (t Template) HasFields() bool { return slices.ContainsFunc(t.parts, part.isField) }

// isOneField reports whether there is nothing but a field.
func (t Template) isOneField() bool { return len(t.parts) == 1 && t.parts[0].isField() }

func (p part) isField() bool { return p.field.Name != "" }

// Fill returns the text with the values of its fields.
func (t Template) Fill(value Value) (string, error) {
	var filled strings.Builder
	for _, p := range t.parts {
		if !p.isField() {
			filled.WriteString(p.text)
			continue
		}
		text, err := value(p.field)
		if err != nil {
			return "", err
		}
		filled.WriteString(text)
	}
	return filled.String(), nil
}

// Format returns the template with other text around its fields.
func (t Template) Format(text func(string) string) string {
	var b strings.Builder
	for _, p := range t.parts {
		if p.isField() {
			b.WriteString("{" + p.field.Name + "}")
		} else {
			b.WriteString(text(p.text))
		}
	}
	return b.String()
}

// Names returns the names of the fields, for errors.
func (t Template) Names() string {
	var names []string
	for _, p := range t.parts {
		if p.isField() && !slices.Contains(names, p.field.Name) {
			names = append(names, p.field.Name)
		}
	}
	return strings.Join(names, " and ")
}

// Package columns has the values that lists of events show, for tables, pages and CSV.
package columns

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Document has the fields of an event's document by name.
type Document map[string]any

// Parse reads a document.
func Parse(text []byte) (Document, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // a sequence is more than a float64 holds
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return nil, fmt.Errorf("reading a document: %w", err)
	}
	return fields, nil
}

// At returns a value by a name with dots. A key may have dots itself, as in headers: At
// prefers the longest existing key.
func (d Document) At(name string) (any, bool) {
	if value, found := d[name]; found {
		return value, true
	}
	for end := len(name) - 1; end > 0; end-- {
		if name[end] != '.' {
			continue
		}
		nested, _ := d[name[:end]].(map[string]any)
		if value, found := Document(nested).At(name[end+1:]); found {
			return value, true
		}
	}
	return nil, false
}

// Text returns a value as text: objects and lists as JSON, and "" without a value.
func (d Document) Text(name string) string {
	value, found := d.At(name)
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

// Package sourcevalues counts the values of a field in the sources of documents.
package sourcevalues

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas/jsonscan"
)

// Needed is true for the fields whose doc_values the mapping switches off, so that
// Elasticsearch cannot count by them: values that differ from message to message took it a
// third of the CPU of a document.
func Needed(field kql.Field) bool {
	switch Root(field) {
	case "headers", "body.json", "messaging.message.id", "messaging.message.conversation_id", "watership.fingerprint", "trace.id":
		return true
	}
	return false
}

// Root returns the field in the mapping: the flattened field of a key.
func Root(field kql.Field) string { return cmp.Or(field.Parent, field.Name) }

// Read returns the JSON of a field of a document, which r is at; nil if it has none.
func Read(r *jsonscan.Reader, field string) (value json.RawMessage) {
	name, inside, nested := strings.Cut(field, ".")
	r.Object(func(member []byte) {
		switch {
		case string(member) != name:
		case nested:
			value = Read(r, inside)
		default:
			value = bytes.Clone(r.Raw())
		}
	})
	return value
}

// Counts has the number of documents for each value.
type Counts struct {
	field   kql.Field
	values  map[string]int64
	without int64
}

// New counts the values of a field.
func New(field kql.Field) *Counts { return &Counts{field: field, values: map[string]int64{}} }

// Add counts a document, whose root of the field is a value in JSON, or nil.
func (c *Counts) Add(root json.RawMessage) error {
	values, err := c.valuesOf(root)
	if len(values) == 0 && err == nil {
		c.without++
	}
	for value := range values {
		c.values[value]++
	}
	return err
}

// maxKeyword is the ignore_above of the mapping, in UTF-16 units.
const maxKeyword = 8191

// valuesOf returns each value once, as it is written.
func (c *Counts) valuesOf(root json.RawMessage) (map[string]bool, error) {
	if root == nil {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(root))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("reading %s of a document: %w", Root(c.field), err)
	}
	values := map[string]bool{}
	addLeaves(value, Root(c.field), func(path, text string) {
		inside := c.field.Type == kql.Flattened && c.field.Parent == "" || path == c.field.Name
		if inside && (len(text) <= maxKeyword || len(utf16.Encode([]rune(text))) <= maxKeyword) {
			values[text] = true
		}
	})
	return values, nil
}

// addLeaves calls add for each value with its path, in which a key with dots is like
// nested objects.
func addLeaves(value any, path string, add func(path, text string)) {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			addLeaves(member, path+"."+key, add)
		}
	case []any:
		for _, element := range v {
			addLeaves(element, path, add)
		}
	case string:
		add(path, v)
	case json.Number:
		add(path, v.String())
	case bool:
		add(path, strconv.FormatBool(v))
	}
}

// Top returns the most frequent values, and equally frequent ones in ascending order, as
// Elasticsearch does.
func (c *Counts) Top(n int) eventstore.Aggregation {
	top := eventstore.Aggregation{Without: c.without}
	values := slices.SortedFunc(maps.Keys(c.values), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.values[b], c.values[a]), strings.Compare(a, b))
	})
	for i, value := range values {
		if i >= n {
			top.Others += c.values[value]
			continue
		}
		top.Values = append(top.Values, eventstore.Bucket{Text: value, Count: c.values[value]})
	}
	return top
}

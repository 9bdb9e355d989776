package sqlite

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite/internal/analyzer"
	"github.com/watershipmq/watership/eventstore/sqlite/internal/scalar"
)

// readValue adds the value at the path according to the mapping. Fields without a mapping
// are not searchable: their texts are skipped. listed marks values in a list.
func (r *documentParser) readValue(listed bool) {
	if field, known := r.mapped[string(r.path)]; known {
		r.readMapped(field, listed)
		return
	}
	switch r.json.Peek() {
	case '{':
		r.readObject(listed)
	case '[':
		r.json.Array(func() { r.readValue(true) })
	case '"':
	default:
		r.readScalar()
	}
}

func (r *documentParser) readObject(listed bool) {
	if template, known := r.dynamic[string(r.path)]; known {
		r.readDynamic(template)
		return
	}
	r.readMembers(func() { r.readValue(listed) })
}

// readMembers calls read for each member of an object, with its path.
func (r *documentParser) readMembers(read func()) {
	length := len(r.path)
	r.json.Object(func(name []byte) {
		r.path = append(append(r.path[:length], '.'), name...)
		read()
	})
	r.path = r.path[:length]
}

// readDynamic adds the fields of an object that the mapping creates on first use, such as
// labels.
func (r *documentParser) readDynamic(template kql.Field) {
	root := string(r.path)
	r.json.Object(func(name []byte) {
		label := string(name)
		template.Name = root + "." + label
		value, err := scalar.Convert(template, r.readScalar())
		if r.refuse(err); value != nil {
			r.terms = append(r.terms, term{root, label, value})
		}
	})
}

func (r *documentParser) readMapped(field kql.Field, listed bool) {
	switch {
	case field.Name == "event.id": // parse sets it to the id of the document
	case field.Type == kql.Flattened:
		r.readFlattened(field)
	case r.json.Peek() == '[':
		r.json.Array(func() { r.readMapped(field, true) })
	default:
		value, err := scalar.Convert(field, r.readScalar())
		if err == nil && value != nil {
			err = r.addScalar(field, value, listed)
		}
		r.refuse(err)
	}
}

// readScalar reads a text, a number, a boolean or null. It reads nothing of an object or a
// list, and returns an empty one.
func (r *documentParser) readScalar() any {
	switch r.json.Peek() {
	case '{':
		return map[string]any{}
	case '[':
		return []any{}
	case '"':
		text := r.json.Text()
		if !utf8.ValidString(text) {
			text = string([]rune(text))
		}
		return text
	}
	literal := r.json.Token()
	switch string(literal) {
	case "null", "":
		return nil
	case "true", "false":
		return literal[0] == 't'
	}
	if !json.Valid(literal) {
		r.json.Fail(fmt.Errorf("%.100q is no value", literal))
	}
	return json.Number(literal)
}

func (r *documentParser) addScalar(field kql.Field, value any, listed bool) error {
	index, isColumn := r.columnIndex[field.Name]
	if listed && isSingle(field) || isColumn && r.values[index] != nil {
		return fmt.Errorf("%s has a list, but this store allows one value", field.Name)
	}
	if hasTerms(field) {
		r.terms = append(r.terms, term{field.Name, "", value})
	}
	if !isColumn {
		return nil
	}
	if field.Type == kql.Text {
		r.addWords(field.Name, value)
		value = 1
	}
	r.values[index] = value
	return nil
}

func (r *documentParser) addWords(name string, value any) {
	if i := slices.Index(r.textColumns, name); i >= 0 {
		r.words[i] = joinWords(analyzer.Words(value.(string)))
	}
}

// readFlattened adds the values of an object, or of the objects of a list, by their keys. Keys of nested objects are
// joined with dots. The field exists in an object without values, too.
func (r *documentParser) readFlattened(field kql.Field) {
	switch r.json.Peek() {
	case '[': // of objects
		r.json.Array(func() { r.readFlattened(field) })
		return
	case '{':
	default:
		if value := r.readScalar(); value != nil {
			r.refuse(fmt.Errorf("%s is %s, expected an object", field.Name, scalar.Describe(value)))
		}
		return
	}
	r.values[r.columnIndex[field.Name]] = 1
	root := len(r.path) + len(".")
	r.readMembers(func() { r.flatten(field.Name, root) })
}

// flatten adds the values at the path, whose key begins at root.
func (r *documentParser) flatten(field string, root int) {
	switch r.json.Peek() {
	case '{':
		r.readMembers(func() { r.flatten(field, root) })
	case '[':
		r.json.Array(func() { r.flatten(field, root) })
	default:
		if text, ok := scalar.KeywordText(r.readScalar()); ok {
			r.terms = append(r.terms, term{field, string(r.path[root:]), text})
		}
	}
}

package system

import (
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Language reads queries and the names of fields, as documents of a format have them.
type Language struct{ format schemas.DocumentFormat }

// NewLanguage returns the language for documents of a format.
func NewLanguage(format schemas.DocumentFormat) Language { return Language{format} }

// DocumentFormat returns the format in which events are stored.
func (l Language) DocumentFormat() schemas.DocumentFormat { return l.format }

// ParseQuery parses a query as ParseQueryIn does, in the zone of the machine.
func (l Language) ParseQuery(text string) (kql.Node, error) { return l.ParseQueryIn(text, time.Local) }

// ParseQueryIn parses a query and resolves its fields to their full names. Times without a
// zone are in the given one. Its errors are InputErrors.
func (l Language) ParseQueryIn(text string, zone *time.Location) (kql.Node, error) {
	node, err := kql.Parse(text)
	if err != nil {
		return nil, InputError{err}
	}
	fields, err := l.Fields()
	if err != nil {
		return nil, err
	}
	node, err = kql.Resolve(node, fields)
	if err != nil {
		return nil, InputError{err}
	}
	return kql.InZone(node, fields, time.Now().In(zone)), nil
}

// Fields returns the fields of the mapping, and the labels of the configuration.
func (l Language) Fields() (kql.Fields, error) {
	fields, err := eventstore.Fields()
	fields.Labels = l.format.LabelFields()
	return fields, err
}

// Field returns the field with a full or short name. Its errors are InputErrors.
func (l Language) Field(name string) (kql.Field, error) {
	fields, err := l.Fields()
	if err != nil {
		return kql.Field{}, err
	}
	if strings.Contains(name, "*") {
		return kql.Field{}, InputErrorf("%q: expected the name of one field, without wildcards", name)
	}
	resolved, err := kql.Resolve(kql.Exists{Field: kql.Pattern{name}}, fields)
	if err != nil {
		return kql.Field{}, InputError{err}
	}
	full := resolved.(kql.Exists).Field.Text()
	field, isField := fields.Lookup(full)
	if !isField {
		return kql.Field{}, InputErrorf("%q is an object: name a field of it, such as %s", name, fields.Below(full)[0].Name)
	}
	return field, nil
}

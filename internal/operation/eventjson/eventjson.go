// Package eventjson has events as the JSON of the HTTP API: the documents of the store.
package eventjson

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/schemas"
)

// Document is an event in the form that the store keeps, the export has and queries
// name fields of.
type Document json.RawMessage

// Of returns the document of an event for the caller of a request, with the labels of a format. An event that was read without
// its body has none.
func Of(ctx context.Context, format schemas.DocumentFormat, e schemas.Event) Document {
	e.Answer = Answer(ctx, e.Answer)
	e.Sealed = nil // for processes with its keys, which read the store
	return schemas.DocumentFormat{Labels: format.Labels, NumericLabels: format.NumericLabels}.Append(nil, e)
}

// Answer returns the part of a kept answer that the caller of a request may read: all of it, or the status for one that
// may not read bodies.
func Answer(ctx context.Context, text string) string {
	if access.ShowsBodies(ctx) {
		return text
	}
	status, _, _ := strings.Cut(text, " ")
	return status
}

// MarshalJSON implements json.Marshaler.
func (d Document) MarshalJSON() ([]byte, error) { return d, nil }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Document) UnmarshalJSON(text []byte) error {
	*d = slices.Clone(text)
	return nil
}

// Schema implements huma.SchemaProvider. The mapping of Elasticsearch gives
// the members; documents have more, which cannot be searched.
func (Document) Schema(registry huma.Registry) *huma.Schema {
	const name = "Event"
	if registry.Map()[name] == nil {
		fields, err := eventstore.Fields()
		if err != nil {
			panic("eventjson: " + err.Error()) // the mapping is embedded
		}
		schema := objectSchema("An event in the life of a message, as the store keeps it")
		for _, field := range fields.Known {
			addField(schema, strings.Split(field.Name, "."), field.Type)
		}
		registry.Map()[name] = schema
	}
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

func objectSchema(text string) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, Description: text, Properties: map[string]*huma.Schema{}, AdditionalProperties: true}
}

// addField adds a field of the mapping. Objects that several attempts have are arrays.
func addField(object *huma.Schema, path []string, kind kql.FieldType) {
	name := path[0]
	switch {
	case len(path) > 1 && path[1] == "*":
		object.Properties[name] = objectSchema("")
	case name == "attempts":
		object.Properties[name] = &huma.Schema{Type: huma.TypeArray, Items: objectSchema("")}
	case len(path) > 1:
		if object.Properties[name] == nil {
			object.Properties[name] = objectSchema("")
		}
		addField(object.Properties[name], path[1:], kind)
	default:
		object.Properties[name] = valueSchema(kind)
	}
}

func valueSchema(kind kql.FieldType) *huma.Schema {
	switch kind {
	case kql.Long:
		return &huma.Schema{Type: huma.TypeInteger, Format: "int64"}
	case kql.Double:
		return &huma.Schema{Type: huma.TypeNumber, Format: "double"}
	case kql.Date:
		return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
	case kql.Flattened:
		return objectSchema("")
	}
	return &huma.Schema{Type: huma.TypeString}
}

// Only returns an object with the fields alone, each in its place.
func (d Document) Only(fields []string) (Document, error) {
	decoder := json.NewDecoder(bytes.NewReader(d))
	decoder.UseNumber()
	var all map[string]any
	if err := decoder.Decode(&all); err != nil {
		return nil, err
	}
	some := map[string]any{}
	for _, field := range fields {
		copyField(some, all, field)
	}
	return json.Marshal(some)
}

// copyField copies a field. A key of headers or labels may have dots.
func copyField(to, from map[string]any, path string) {
	if value, found := from[path]; found {
		to[path] = value
		return
	}
	for at := len(path) - 1; at > 0; at-- {
		if path[at] != '.' {
			continue
		}
		inner, is := from[path[:at]].(map[string]any)
		if !is {
			continue
		}
		copied, _ := to[path[:at]].(map[string]any)
		if copied == nil {
			copied = map[string]any{}
		}
		if copyField(copied, inner, path[at+1:]); len(copied) > 0 {
			to[path[:at]] = copied
		}
	}
}

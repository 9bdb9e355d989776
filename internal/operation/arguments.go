package operation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/watershipmq/watership/internal/operation/problem"
)

// Served returns an operation as the API serves it, with the schemas of its request.
func (s *Set) Served(op Operation) (*Operation, bool) {
	return s.Find(op.Method + " " + s.prefix + op.Path)
}

// Arguments returns the JSON Schema of an object that has all values of a request of an operation
// that is served: the parameters of its path and its query, and the members of its body. It refers
// to no other schema.
func (op *Operation) Arguments() map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, p := range op.parameters {
		if p.In == "header" {
			continue
		}
		schema := op.inlined(p.Schema)
		schema["description"] = cmp.Or(p.Description, p.Schema.Description)
		properties[p.Name] = schema
		if p.Required {
			required = append(required, p.Name)
		}
	}
	if op.body != nil {
		body := op.inlined(op.body)
		members, _ := body["properties"].(map[string]any)
		for name, schema := range members {
			if properties[name] != nil {
				panic("operation: " + op.ID + " has a parameter and a member with the name " + name) // a mistake of a declaration
			}
			properties[name] = schema
		}
		needed, _ := body["required"].([]any)
		for _, name := range needed {
			required = append(required, name.(string))
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}

// inlined returns a schema as JSON has it, with the schemas to which it refers in place.
func (op *Operation) inlined(s *huma.Schema) map[string]any {
	if s.Ref != "" {
		s = op.schemas.SchemaFromRef(s.Ref)
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("operation: a schema of %s: %v", op.ID, err)) // a mistake of a declaration
	}
	var schema map[string]any
	_ = json.Unmarshal(text, &schema) // it was written just now
	return op.inlineMembers(schema).(map[string]any)
}

func (op *Operation) inlineMembers(value any) any {
	switch value := value.(type) {
	case map[string]any:
		if ref, is := value["$ref"].(string); is {
			return op.inlined(op.schemas.SchemaFromRef(ref))
		}
		for name, member := range value {
			value[name] = op.inlineMembers(member)
		}
	case []any:
		for i, member := range value {
			value[i] = op.inlineMembers(member)
		}
	}
	return value
}

// Has reports whether Arguments has a name.
func (op *Operation) Has(name string) bool {
	if slices.ContainsFunc(op.parameters, func(p *huma.Param) bool { return p.In != "header" && p.Name == name }) {
		return true
	}
	body := op.body
	if body != nil && body.Ref != "" {
		body = op.schemas.SchemaFromRef(body.Ref)
	}
	return body != nil && body.Properties[name] != nil
}

// Request returns the request of an operation that is served, with arguments as Arguments describes
// them, below the path prefix. Its values are for the API to check; an argument that the operation does not have is a problem.
func (op *Operation) Request(prefix string, arguments map[string]json.RawMessage) (*http.Request, error) {
	rest, path, query := maps.Clone(arguments), prefix+op.Path, url.Values{}
	for _, p := range op.parameters {
		values, given := texts(rest[p.Name])
		delete(rest, p.Name)
		switch {
		case p.In == "path" && !given:
			return nil, problem.Invalid(p.Name, "expected a value")
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", Segment(strings.Join(values, ",")))
		case p.In != "query" || !given:
		case p.Explode != nil && *p.Explode:
			query[p.Name] = values
		default:
			query.Set(p.Name, strings.Join(values, ","))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		if !op.Has(name) {
			return nil, problem.Invalid(name, op.ID+" has no such argument")
		}
	}
	var body []byte
	if op.body != nil {
		body, _ = json.Marshal(rest) // it is JSON already
		if rest == nil {
			body = []byte("{}")
		}
	}
	r, err := http.NewRequest(op.Method, path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("making a request of %s: %w", op.ID, err)
	}
	r.URL.RawQuery = query.Encode()
	if op.body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// texts returns the values of a JSON value for a path or a query: the elements of a list, or the value
// itself. One that is missing or null is not given.
func texts(value json.RawMessage) (values []string, given bool) {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil {
		list = []json.RawMessage{value}
	}
	for _, element := range list {
		var text string
		if json.Unmarshal(element, &text) != nil {
			text = string(element)
		}
		values = append(values, text)
	}
	return values, len(value) > 0 && string(value) != "null"
}

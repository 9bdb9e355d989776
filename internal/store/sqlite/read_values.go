package sqlite

import (
	"encoding/json"
	"fmt"

	"github.com/watershipmq/watership/schemas/query"
)

// value keeps the value at a path as the mapping says. What the mapping does not
// know is not searched. listed is within a list.
func (r *reading) value(path string, value any, listed bool) error {
	if field, known := r.known[path]; known {
		return r.knownValue(field, value, listed)
	}
	switch v := value.(type) {
	case map[string]any:
		return r.object(path, v, listed)
	case []any:
		return r.each(path, v)
	}
	return nil
}

func (r *reading) each(path string, values []any) error {
	for _, value := range values {
		if err := r.value(path, value, true); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) object(path string, members map[string]any, listed bool) error {
	if family, known := r.families[path]; known {
		return r.family(path, family, members)
	}
	for name, member := range members {
		if err := r.value(path+"."+name, member, listed); err != nil {
			return err
		}
	}
	return nil
}

// family keeps fields that the mapping makes as they come, such as labels.
func (r *reading) family(root string, field query.Field, members map[string]any) error {
	for name, member := range members {
		field.Name = root + "." + name
		value, err := scalar(field, member)
		if err != nil {
			return err
		}
		if value != nil {
			r.terms = append(r.terms, term{root, name, value})
		}
	}
	return nil
}

func (r *reading) knownValue(field query.Field, value any, listed bool) error {
	if field.Name == "event.id" { // it is the document's
		return nil
	}
	if field.Type == query.Flattened {
		return r.flattened(field, value)
	}
	if values, ok := value.([]any); ok {
		return r.each(field.Name, values)
	}
	value, err := scalar(field, value)
	if err != nil || value == nil {
		return err
	}
	return r.keep(field, value, listed)
}

func (r *reading) keep(field query.Field, value any, listed bool) error {
	place, column := r.column[field.Name]
	switch {
	case !column:
		r.terms = append(r.terms, term{field.Name, "", value})
		return nil
	case listed || r.values[place] != nil:
		return fmt.Errorf("%s has a list, where this store keeps one value", field.Name)
	case field.Type == query.Text:
		r.keepText(field.Name, value)
		value = 1
	}
	r.values[place] = value
	return nil
}

func (r *reading) keepText(name string, value any) {
	for i, column := range r.texts {
		if column == name {
			r.words[i] = spaced(words(value.(string)))
		}
	}
}

// flattened keeps the values of an object by their keys, with dots between those
// of objects in it.
func (r *reading) flattened(field query.Field, value any) error {
	members, ok := value.(map[string]any)
	if !ok && value != nil {
		return fmt.Errorf("%s is %s, expected an object", field.Name, describe(value))
	}
	before := len(r.terms)
	for key, member := range members {
		r.flatten(field.Name, key, member)
	}
	if len(r.terms) > before {
		r.values[r.column[field.Name]] = 1
	}
	return nil
}

func (r *reading) flatten(field, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			r.flatten(field, path+"."+key, member)
		}
	case []any:
		for _, element := range v {
			r.flatten(field, path, element)
		}
	default:
		if text, ok := searchable(v); ok {
			r.terms = append(r.terms, term{field, path, text})
		}
	}
}

// describe names what stands where something else should.
func describe(value any) string {
	switch v := value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return fmt.Sprintf("%.100q", v)
	case json.Number:
		return fmt.Sprintf("the number %.100s", v)
	}
	return fmt.Sprint(value)
}

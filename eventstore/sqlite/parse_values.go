package sqlite

import (
	"fmt"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite/internal/analyzer"
	"github.com/watershipmq/watership/eventstore/sqlite/internal/scalar"
)

// addValue adds the value at a path according to the mapping. Fields without a mapping
// are not searchable. listed marks values in a list.
func (r *documentParser) addValue(path string, value any, listed bool) error {
	if field, known := r.mapped[path]; known {
		return r.addMapped(field, value, listed)
	}
	switch v := value.(type) {
	case map[string]any:
		return r.addObject(path, v, listed)
	case []any:
		return r.addList(path, v)
	}
	return nil
}

func (r *documentParser) addList(path string, values []any) error {
	for _, value := range values {
		if err := r.addValue(path, value, true); err != nil {
			return err
		}
	}
	return nil
}

func (r *documentParser) addObject(path string, members map[string]any, listed bool) error {
	if template, known := r.dynamic[path]; known {
		return r.addDynamic(path, template, members)
	}
	for name, member := range members {
		if err := r.addValue(path+"."+name, member, listed); err != nil {
			return err
		}
	}
	return nil
}

// addDynamic adds the fields of an object that the mapping creates on first use, such as
// labels.
func (r *documentParser) addDynamic(root string, template kql.Field, members map[string]any) error {
	for name, member := range members {
		template.Name = root + "." + name
		value, err := scalar.Convert(template, member)
		if err != nil {
			return err
		}
		if value != nil {
			r.terms = append(r.terms, term{root, name, value})
		}
	}
	return nil
}

func (r *documentParser) addMapped(field kql.Field, value any, listed bool) error {
	if field.Name == "event.id" { // parse sets it to the id of the document
		return nil
	}
	if field.Type == kql.Flattened {
		return r.addFlattened(field, value)
	}
	if values, ok := value.([]any); ok {
		return r.addList(field.Name, values)
	}
	value, err := scalar.Convert(field, value)
	if err != nil || value == nil {
		return err
	}
	return r.addScalar(field, value, listed)
}

func (r *documentParser) addScalar(field kql.Field, value any, listed bool) error {
	if listed && isSingle(field) {
		return fmt.Errorf("%s has a list, but this store allows one value", field.Name)
	}
	if hasTerms(field) {
		r.terms = append(r.terms, term{field.Name, "", value})
	}
	index, isColumn := r.columnIndex[field.Name]
	switch {
	case !isColumn:
		return nil
	case r.values[index] != nil:
		return fmt.Errorf("%s has a list, but this store allows one value", field.Name)
	case field.Type == kql.Text:
		r.addWords(field.Name, value)
		value = 1
	}
	r.values[index] = value
	return nil
}

func (r *documentParser) addWords(name string, value any) {
	for i, column := range r.textColumns {
		if column == name {
			r.words[i] = joinWords(analyzer.Words(value.(string)))
		}
	}
}

// addFlattened adds the values of an object by their keys. Keys of nested objects are
// joined with dots. The field exists in an object without values, too.
func (r *documentParser) addFlattened(field kql.Field, value any) error {
	members, ok := value.(map[string]any)
	if !ok && value != nil {
		return fmt.Errorf("%s is %s, expected an object", field.Name, scalar.Describe(value))
	}
	for key, member := range members {
		r.flatten(field.Name, key, member)
	}
	if ok {
		r.values[r.columnIndex[field.Name]] = 1
	}
	return nil
}

func (r *documentParser) flatten(field, path string, value any) {
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
		if text, ok := scalar.KeywordText(v); ok {
			r.terms = append(r.terms, term{field, path, text})
		}
	}
}

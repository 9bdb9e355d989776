package query

import (
	"slices"
	"strings"
)

// FieldType is what a field holds, by the names of Elasticsearch's mapping.
// Types that are not named here are asked without checks.
type FieldType string

// The types whose values are checked or compiled in their own way.
const (
	Keyword   FieldType = "keyword"
	Text      FieldType = "text"
	Long      FieldType = "long"
	Double    FieldType = "double"
	Date      FieldType = "date"
	Boolean   FieldType = "boolean"
	Flattened FieldType = "flattened"
)

// Field is something that can be asked about.
type Field struct {
	// Name is the full name. One that ends in ".*" stands for every name below
	// it: {"labels.*", Keyword} says that labels.tenant is a keyword.
	Name string
	Type FieldType
	// Parent is set by Lookup for a key of a flattened field: for
	// headers.tenant it is "headers".
	Parent string
}

func (f Field) family() bool { return strings.HasSuffix(f.Name, ".*") }

// key is what name has below the field, if the field has names below it.
func (f Field) key(name string) (key string, ok bool) {
	if !f.family() && f.Type != Flattened {
		return "", false
	}
	key, ok = strings.CutPrefix(name, strings.TrimSuffix(f.Name, ".*")+".")
	return key, ok && key != ""
}

// Fields is all that can be asked about.
type Fields struct {
	// Known are the fields and families of the store. A flattened one also
	// stands for every key below it.
	Known []Field
	// Labels are names below families and flattened fields that are known to
	// exist, such as labels.tenant and headers.tenant. They may be written
	// without what stands before the key; of two with the same key the earlier
	// one is meant.
	Labels []string
	// Unsearched are names that users know and no query can have, each with the
	// reason. They stand for all names below them.
	Unsearched map[string]string
}

// Lookup finds a field by its full name.
func (f Fields) Lookup(name string) (Field, bool) {
	for _, known := range f.Known {
		if known.Name == name && !known.family() {
			return known, true
		}
	}
	field, _, ok := f.below(name)
	return field, ok
}

// below finds a name that a family or a flattened field stands for.
func (f Fields) below(name string) (field Field, key string, ok bool) {
	for _, known := range f.Known {
		if key, ok := known.key(name); ok {
			field := Field{Name: name, Type: known.Type}
			if known.Type == Flattened {
				field.Parent = known.Name
			}
			return field, key, true
		}
	}
	return Field{}, "", false
}

// Below finds the fields and families below an object, which is a part of the
// document and no field itself. There are none if the name is not that of an object.
func (f Fields) Below(object string) []Field {
	if _, isField := f.Lookup(object); isField {
		return nil
	}
	var found []Field
	for _, known := range f.Known {
		if strings.HasPrefix(known.Name, object+".") {
			found = append(found, known)
		}
	}
	return found
}

// Match finds the fields whose names are of a pattern. All keys of a flattened
// field, `headers.*`, are that field itself; other patterns find only those
// keys and labels whose names are known.
func (f Fields) Match(pattern Pattern) []Field {
	var found []Field
	for _, known := range f.Known {
		all := known.Type == Flattened && slices.Equal(pattern, Pattern{known.Name + ".", ""})
		if all || !known.family() && pattern.Match(known.Name) {
			found = append(found, known)
		}
	}
	for _, label := range f.Labels {
		if field, ok := f.Lookup(label); ok && pattern.Match(label) {
			found = append(found, field)
		}
	}
	return found
}

// Expand finds the fields that a resolved name stands for. Of those that a
// pattern finds it leaves out the ones that do not fit, for which Elasticsearch
// would refuse the whole query. A name that nobody knows stays, as in Kibana:
// other indices may have it.
func (f Fields) Expand(name Pattern, fits func(Field) bool) []Field {
	if !name.Wild() {
		field, ok := f.Lookup(name.Text())
		if !ok {
			field.Name = name.Text()
		}
		return []Field{field}
	}
	var found []Field
	for _, field := range f.Match(name) {
		if fits(field) {
			found = append(found, field)
		}
	}
	return found
}

// short finds the fields that a name without its first segments can mean. Of two
// within one object it means the outer: class is watership.class, and not
// watership.attempts.class.
func (f Fields) short(name string) []Field {
	var found []Field
	for _, known := range f.Known {
		if !known.family() && strings.HasSuffix(known.Name, "."+name) {
			found = append(found, known)
		}
	}
	if len(found) > 0 {
		return slices.DeleteFunc(slices.Clone(found), func(inner Field) bool {
			return slices.ContainsFunc(found, func(outer Field) bool {
				return inner != outer && strings.HasPrefix(inner.Name, strings.TrimSuffix(outer.Name, name))
			})
		})
	}
	for _, label := range f.Labels {
		if field, key, ok := f.below(label); ok && key == name {
			return []Field{field}
		}
	}
	return nil
}

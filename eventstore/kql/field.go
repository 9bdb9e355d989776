package kql

import (
	"slices"
	"strings"
)

// FieldType is the type of a field in Elasticsearch's mapping. Values for types
// without a constant are not checked.
type FieldType string

// The types whose values are checked or compiled specially.
const (
	Keyword   FieldType = "keyword"
	Text      FieldType = "text"
	Long      FieldType = "long"
	Double    FieldType = "double"
	Date      FieldType = "date"
	Boolean   FieldType = "boolean"
	Flattened FieldType = "flattened"
)

// Field is a searchable field.
type Field struct {
	// Name is the full name. A name that ends in ".*" covers every name below it:
	// {"labels.*", Keyword} means that labels.tenant is a keyword.
	Name string
	Type FieldType
	// Parent is set by Lookup for a key of a flattened field: for
	// headers.tenant it is "headers".
	Parent string
}

func (f Field) family() bool { return strings.HasSuffix(f.Name, ".*") }

// key returns the part of name below the field, if the field covers names below it.
func (f Field) key(name string) (key string, ok bool) {
	if !f.family() && f.Type != Flattened {
		return "", false
	}
	key, ok = strings.CutPrefix(name, strings.TrimSuffix(f.Name, ".*")+".")
	return key, ok && key != ""
}

// Fields are the searchable fields of a store.
type Fields struct {
	// Known are the fields and families of the store. A flattened field also covers
	// every key below it.
	Known []Field
	// Labels are existing names below families and flattened fields, such as
	// labels.tenant and headers.tenant. A query may use the key alone. If two have
	// the same key, it means the earlier one.
	Labels []string
	// Unsearched are names that users know but cannot search, each with the reason.
	// A name covers all names below it.
	Unsearched map[string]string
}

// Lookup returns the field with a full name.
func (f Fields) Lookup(name string) (Field, bool) {
	for _, known := range f.Known {
		if known.Name == name && !known.family() {
			return known, true
		}
	}
	field, _, ok := f.covering(name)
	return field, ok
}

// covering finds the family or flattened field that covers a name.
func (f Fields) covering(name string) (field Field, key string, ok bool) {
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

// Below returns the fields and families below an object, which is a part of the
// document and no field itself. It returns none if name is no object.
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

// Match returns the fields whose names match a pattern. All keys of a flattened
// field, `headers.*`, are that field itself; other patterns match only keys and
// labels with known names.
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

// Expand returns the fields for a resolved name or pattern. From the matches of a
// pattern it omits the fields that do not fit, for which Elasticsearch would refuse
// the whole query. It keeps an unknown name, as Kibana does: other indices may have
// it.
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

// Short returns the shortest name by which a query can name a field: queue for
// watership.queue, but message.id for messaging.message.id, since event.id ends so, too.
func (f Fields) Short(full string) string {
	for at := len(full) - 1; at > 0; at-- {
		if full[at] != '.' {
			continue
		}
		short := full[at+1:]
		if found, err := f.find(Pattern{short}, Place{}); err == nil && found[0].Name == full {
			return short
		}
	}
	return full
}

// short returns the fields that a name without its first segments can mean. Of two
// within one object it returns the outer: class is watership.class, and not
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
		if field, key, ok := f.covering(label); ok && key == name {
			return []Field{field}
		}
	}
	return nil
}

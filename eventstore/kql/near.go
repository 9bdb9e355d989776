package kql

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/watershipmq/watership/internal/render/typo"
)

// near returns up to three names similar to a wrong one: with a typing error in the
// whole name or its last segment, or with the end missing.
func (f Fields) near(name string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var candidates []candidate
	farthest := max(1, utf8.RuneCountInString(name)/3)
	for _, full := range f.names() {
		d := min(typo.Distance(name, full), typo.Distance(name, full[strings.LastIndexByte(full, '.')+1:]))
		if strings.HasPrefix(full, name+".") {
			d = 0
		}
		if d <= farthest {
			candidates = append(candidates, candidate{full, d})
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	keys := f.keysBelow(name)
	if len(keys) > 0 { // names elsewhere are less likely
		object, _, _ := strings.Cut(name, ".")
		candidates = slices.DeleteFunc(candidates, func(c candidate) bool { return !strings.HasPrefix(c.name, object+".") })
	}
	var names []string
	for _, c := range candidates[:min(3, len(candidates))] {
		names = append(names, c.name)
	}
	return append(names, keys...)
}

// keysBelow returns a name in an object as a key of the object's flattened fields: body.id as body.json.id.
func (f Fields) keysBelow(name string) (keys []string) {
	object, key, isBelow := strings.Cut(name, ".")
	for _, field := range f.Known {
		if isBelow && field.Type == Flattened && strings.HasPrefix(field.Name, object+".") {
			keys = append(keys, field.Name+"."+key)
		}
	}
	return keys
}

// unknown returns the error for a name without a field.
func (f Fields) unknown(name string, at Place) *FieldError {
	none := &FieldError{Field: name, At: at}
	if none.Problem = f.unsearched(name); none.Problem != "" {
		return none
	}
	below := f.Below(name)
	switch {
	case len(below) > 0:
		none.Problem = strconv.Quote(name) + " is an object, which has no value"
		none.Hint = "write " + alternatives(namesOf(below))
	case strings.HasPrefix(name, "_"):
		none.Problem = fieldString(Pattern{name}) + " is a field of Elasticsearch and of no event"
		none.Hint = "search fields of events, such as event.id"
	default:
		none.Problem, none.Near, none.Hint = "no field "+strconv.Quote(name), f.near(name), f.keyHint(name)
	}
	return none
}

// unsearched returns the reason why a name, or a name above it, cannot be searched,
// or "".
func (f Fields) unsearched(name string) string {
	for known, reason := range f.Unsearched {
		if name == known || strings.HasPrefix(name, known+".") {
			return known + " " + reason
		}
	}
	return ""
}

func namesOf(fields []Field) []string {
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i] = field.Name
	}
	return names
}

// keyHint returns a hint for a name: how to write it as a key of a flattened field,
// or the names in the object with which it begins.
func (f Fields) keyHint(name string) string {
	object, _, _ := strings.Cut(name, ".")
	if below := f.Below(object); len(below) > 0 {
		return object + " has the fields " + alternatives(namesOf(below))
	}
	var keys []string
	for _, field := range f.Known {
		if field.Type == Flattened {
			keys = append(keys, field.Name+"."+name)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	return "a key of that name is " + alternatives(keys)
}

func (f Fields) names() []string {
	names := make([]string, 0, len(f.Known)+len(f.Labels))
	for _, field := range f.Known {
		if !field.family() {
			names = append(names, field.Name)
		}
	}
	return append(names, f.Labels...)
}

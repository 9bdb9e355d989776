package query

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// near finds up to three names that a wrong one could stand for: by a slip of
// the fingers in the whole name or its last segment, or by its end missing.
func (f Fields) near(name string) []string {
	type candidate struct {
		name     string
		distance int
	}
	var candidates []candidate
	farthest := max(1, utf8.RuneCountInString(name)/3)
	for _, full := range f.names() {
		d := min(distance(name, full), distance(name, full[strings.LastIndexByte(full, '.')+1:]))
		if strings.HasPrefix(full, name+".") {
			d = 0
		}
		if d <= farthest {
			candidates = append(candidates, candidate{full, d})
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(a.distance, b.distance) })
	var names []string
	for _, c := range candidates[:min(3, len(candidates))] {
		names = append(names, c.name)
	}
	return names
}

// unknown says why there is no field of a name.
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
		none.Problem, none.Near, none.Hint = "no field "+strconv.Quote(name), f.near(name), f.asKey(name)
	}
	return none
}

// unsearched says why a name, or one that it is below, cannot be searched, if that is so.
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

// asKey says how a name is written that was meant as a key of a flattened field, or
// which names there are in the object that it begins with.
func (f Fields) asKey(name string) string {
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

// distance is the number of characters to add, take away or change to make one
// name of the other (Levenshtein), in any case.
func distance(a, b string) int {
	from, to := []rune(strings.ToLower(a)), []rune(strings.ToLower(b))
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j, s := range to {
			change := diagonal
			if r != s {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}

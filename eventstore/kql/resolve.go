package kql

import (
	"fmt"
	"strconv"
)

// Resolve checks a tree against the fields of a store, and replaces names in it by
// full names:
//
//   - a full name, a key of a flattened field or a name of a family stays;
//   - the last segments of a known name mean that field, if no other name ends so;
//   - a key of Fields.Labels means that label;
//   - a pattern stays if it matches a field that can answer the query;
//   - the name of an object stays in an Exists: it exists if a field below it does.
//
// Kibana sends unknown names unchanged and finds nothing. In Watership a query also
// selects the messages of a replay, so an unknown name is an error, and so is a
// value that the store would refuse or misread. The error is a *FieldError.
func Resolve(node Node, fields Fields) (Node, error) {
	switch n := node.(type) {
	case And:
		nodes, err := resolveAll(n, fields)
		return And(nodes), err
	case Or:
		nodes, err := resolveAll(n, fields)
		return Or(nodes), err
	case Not:
		child, err := Resolve(n.Node, fields)
		return Not{child}, err
	case Is:
		if n.Field == nil {
			return n, nil
		}
		field, err := fields.resolve(n.Field, n.At, n.refusal)
		n.Field = field
		return n, err
	case Exists:
		if !n.Field.Wild() && len(fields.Below(n.Field.Text())) > 0 {
			return n, nil
		}
		field, err := fields.resolve(n.Field, n.At, n.refusal)
		n.Field = field
		return n, err
	case Range:
		field, err := fields.resolve(n.Field, n.At, n.refusal)
		n.Field = field
		return n, err
	default:
		return node, nil
	}
}

func resolveAll(nodes []Node, fields Fields) ([]Node, error) {
	resolved := make([]Node, len(nodes))
	for i, node := range nodes {
		var err error
		if resolved[i], err = Resolve(node, fields); err != nil {
			return nil, err
		}
	}
	return resolved, nil
}

// resolve returns the full name of a field, or a pattern that at least one field can
// answer. refusal returns the error of a field that cannot.
func (f Fields) resolve(name Pattern, at Place, refusal func(Field) *FieldError) (Pattern, error) {
	found, err := f.find(name, at)
	if err != nil {
		return nil, err
	}
	var refused *FieldError
	for _, field := range found {
		if refused = refusal(field); refused == nil {
			break
		}
	}
	if refused != nil {
		return nil, refused
	}
	if !name.Wild() {
		name = Pattern{found[0].Name}
	}
	return name, nil
}

func (f Fields) find(name Pattern, at Place) ([]Field, error) {
	if name.Wild() {
		return f.findPattern(name, at)
	}
	text := name.Text()
	if field, ok := f.Lookup(text); ok {
		return []Field{field}, nil
	}
	found := f.short(text)
	switch len(found) {
	case 0:
		return nil, f.unknown(text, at)
	case 1:
		return found, nil
	}
	ambiguous := &FieldError{Field: text, At: at, Problem: strconv.Quote(text) + " is short for more than one field"}
	for _, field := range found {
		ambiguous.Near = append(ambiguous.Near, field.Name)
	}
	return nil, ambiguous
}

func (f Fields) findPattern(pattern Pattern, at Place) ([]Field, error) {
	found := f.Match(pattern)
	if len(found) > 0 {
		return found, nil
	}
	none := &FieldError{Field: pattern.Text(), At: at, Problem: "no field like " + strconv.Quote(pattern.Text())}
	if field, ok := f.Lookup(pattern.Text()); ok && field.Parent != "" {
		none.Hint = fmt.Sprintf("the keys of %s cannot be searched by pattern, but all of them can: %[1]s.*", field.Parent)
	}
	return nil, none
}

package config

import (
	"fmt"
	"slices"
	"strings"
)

// read parses the node of a key, and sets the field of the key.
type read func(l *loader, path string, n node)

// scalar reads one value. The error of parse becomes the mistake's Expected.
func scalar[T any](parse func(string) (T, error), into *T) read {
	return func(l *loader, path string, n node) {
		l.record(path, n)
		if n.Kind != text {
			l.fail(path, n, "expected one value")
			return
		}
		parsed, err := parse(n.Text)
		if err != nil {
			l.fail(path, n, err.Error())
			return
		}
		*into = parsed
	}
}

// scalars reads a list of values.
func scalars[T any](parse func(string) (T, error), into *[]T) read {
	return func(l *loader, path string, n node) {
		l.record(path, n)
		if n.Kind != sequence {
			l.fail(path, n, "expected a list")
			return
		}
		*into = []T{} // an empty list differs from none
		for i, item := range n.Items {
			var one T
			if item.Kind != text {
				l.fail(element(path, i), item, "expected one value")
			} else if parsed, err := parse(item.Text); err != nil {
				l.fail(element(path, i), item, err.Error())
			} else {
				one = parsed
			}
			*into = append(*into, one)
		}
	}
}

// structures reads a list of structures.
func structures[T any](one func(l *loader, path string, n node) T, into *[]T) read {
	return func(l *loader, path string, n node) {
		l.record(path, node{Origin: n.Origin})
		if n.Kind != sequence {
			l.fail(path, n, "expected a list")
			return
		}
		for i, item := range n.Items {
			l.record(element(path, i), node{Origin: item.Origin})
			*into = append(*into, one(l, element(path, i), item))
		}
	}
}

// structureField is a field of a structure.
type structureField struct {
	name     string
	fallback string // as it would be written; empty if none exists
	read     read
}

// readFields reads the fields of a structure, and reports unknown ones.
func (l *loader) readFields(path string, n node, known ...structureField) {
	l.readFieldsSuggesting(path, n, nil, known...)
}

// readFieldsSuggesting is readFields that suggests the known fields for an unknown one, without
// some.
func (l *loader) readFieldsSuggesting(path string, n node, without []string, known ...structureField) {
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.name
		value, _ := n.field(p.name)
		switch {
		case value.Kind != absent:
			p.read(l, join(path, p.name), value)
		case p.fallback != "":
			p.read(l, join(path, p.name), textNode(p.fallback, Origin{Place: Default}))
		}
	}
	if n.Kind != mapping && n.Kind != absent {
		l.fail(path, n, "expected fields such as "+names[0])
		l.noStructure[path] = true
	}
	for _, f := range n.Fields {
		if !slices.Contains(names, f.Name) {
			suggested := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(without, name) })
			l.unknown(join(path, f.Name), f.Value.Origin, childPaths(path, suggested))
		}
	}
}

func childPaths(path string, names []string) []string {
	full := make([]string, len(names))
	for i, name := range names {
		full[i] = join(path, name)
	}
	return full
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

func element(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

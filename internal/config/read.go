package config

import (
	"fmt"
	"slices"
	"strings"
)

// read parses the node of a key, and sets the field of the key.
type read func(l *loader, path string, n node)

// value reads one value. The error of parse becomes the mistake's Expected.
func value[T any](parse func(string) (T, error), into *T) read {
	return func(l *loader, path string, n node) {
		l.record(path, n)
		if n.Form != text {
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

// list reads a list of values.
func list[T any](parse func(string) (T, error), into *[]T) read {
	return func(l *loader, path string, n node) {
		l.record(path, n)
		if n.Form != sequence {
			l.fail(path, n, "expected a list")
			return
		}
		*into = []T{} // an empty list differs from none
		for i, item := range n.Items {
			var one T
			if item.Form != text {
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

// each reads a list of structures.
func each[T any](one func(l *loader, path string, n node) T, into *[]T) read {
	return func(l *loader, path string, n node) {
		l.record(path, node{Origin: n.Origin})
		if n.Form != sequence {
			l.fail(path, n, "expected a list")
			return
		}
		for i, item := range n.Items {
			l.record(element(path, i), node{Origin: item.Origin})
			*into = append(*into, one(l, element(path, i), item))
		}
	}
}

// part is a field of a structure.
type part struct {
	name     string
	fallback string // as it would be written; empty if there is none
	read     read
}

// parts reads the fields of a structure, and reports unknown ones.
func (l *loader) parts(path string, n node, known ...part) {
	names := make([]string, len(known))
	for i, p := range known {
		names[i] = p.name
		value, _ := n.field(p.name)
		switch {
		case value.Form != absent:
			p.read(l, join(path, p.name), value)
		case p.fallback != "":
			p.read(l, join(path, p.name), textNode(p.fallback, Origin{Place: Default}))
		}
	}
	if n.Form != mapping && n.Form != absent {
		l.fail(path, n, "expected fields such as "+names[0])
	}
	for _, f := range n.Fields {
		if !slices.Contains(names, f.Name) {
			l.unknown(join(path, f.Name), f.Value.Origin, under(path, names))
		}
	}
}

func under(path string, names []string) []string {
	full := make([]string, len(names))
	for i, name := range names {
		full[i] = join(path, name)
	}
	return full
}

func join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

func element(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

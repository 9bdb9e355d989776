package config

import (
	"fmt"
	"slices"
)

// Place is the kind of source of a value.
type Place int

// The kinds of sources, the lowest precedence first.
const (
	Default Place = iota
	Derived       // from another value
	File
	Environment
	Flag
)

// Origin is the source of a value.
type Origin struct {
	Place Place
	Name  string // of the other key, the file, the variable or the flag
	Line  int    // in the file; 0 if not known
}

func (o Origin) String() string {
	switch {
	case o.Place == Default:
		return "default"
	case o.Place == Derived:
		return "from " + o.Name
	case o.Line > 0:
		return fmt.Sprintf("%s:%d", o.Name, o.Line)
	default:
		return o.Name
	}
}

// IsSet reports whether the file, the environment or a flag has a key of Keys.
func (c Config) IsSet(key string) bool {
	_, found := slices.BinarySearch(c.keysSet, key)
	return found
}

// File returns the name of the configuration file; "" without one.
func (c Config) File() string { return c.file }

// Setting is one value with its origin.
type Setting struct {
	Key    string // routes[0].queue
	Value  string // without passwords
	Origin Origin
}

// Describe lists the settings in force, without empty values.
func (c Config) Describe() []Setting { return slices.Clone(c.settings) }

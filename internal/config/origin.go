package config

import (
	"fmt"
	"slices"
)

// Place is the kind of place a value comes from.
type Place int

// Values come from these places; a later one goes before an earlier one.
const (
	Default Place = iota
	Derived       // from another value
	File
	Environment
	Flag
)

// Origin is where a value comes from.
type Origin struct {
	Place Place
	Name  string // of the other key, the file, the variable or the flag
	Line  int    // in the file; 0 where not known
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

// Setting is one value and where it comes from.
type Setting struct {
	Key    string // routes[0].queue
	Value  string // without passwords
	Origin Origin
}

// Describe lists the settings in force, without empty values.
func (c Config) Describe() []Setting { return slices.Clone(c.settings) }

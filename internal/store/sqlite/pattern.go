package sqlite

import (
	"database/sql/driver"
	"strings"

	"modernc.org/sqlite"

	"github.com/watershipmq/watership/schemas/query"
)

// newDriver is SQLite with the function matches(value, part, ...): whether a
// value is of a pattern with these parts. GLOB would do but for values that have
// a NUL, at which it stops.
func newDriver() (*sqlite.Driver, error) {
	d := &sqlite.Driver{}
	err := d.RegisterFunction("matches", &sqlite.FunctionImpl{
		NArgs: -1, Deterministic: true, Scalar: matches,
		VolatileArgs: true, // they are not kept, and come with their NULs
	})
	return d, err
}

func matches(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
	parts := make(query.Pattern, len(args)-1)
	for i, arg := range args[1:] {
		parts[i], _ = arg.(string)
	}
	value, isText := args[0].(string)
	return isText && parts.Match(value), nil
}

// matching is the test of a value with a pattern that has wildcards. What stands
// before the first is looked for in an index.
func matching(pattern query.Pattern) test {
	return func(value string) condition {
		conditions := []condition{beginning(value, pattern[0])}
		if _, isPrefix := pattern.Prefix(); !isPrefix {
			conditions = append(conditions, matched(value, pattern))
		}
		return allOf(conditions)
	}
}

func matched(value string, pattern query.Pattern) condition {
	args := make([]any, len(pattern))
	for i, part := range pattern {
		args[i] = part
	}
	return where("matches("+value+strings.Repeat(", ?", len(args))+")", args...)
}

// beginning is true of the texts from a prefix to where those that begin so end.
func beginning(value, prefix string) condition {
	if prefix == "" {
		return where("typeof(" + value + ") = 'text'")
	}
	end := []byte(prefix)
	end[len(end)-1]++ // no byte of UTF-8 is the highest
	return where(value+" >= ? AND "+value+" < ?", prefix, string(end))
}

package sqlite

import (
	"database/sql/driver"
	"strings"

	"modernc.org/sqlite"

	"github.com/watershipmq/watership/eventstore/kql"
)

// newDriver returns a driver of SQLite with the function matches(value, part, ...),
// which matches a value against a pattern. GLOB would stop at a NUL in the value.
func newDriver() (*sqlite.Driver, error) {
	d := &sqlite.Driver{}
	err := d.RegisterFunction("matches", &sqlite.FunctionImpl{
		NArgs: -1, Deterministic: true, Scalar: matchesArguments,
		VolatileArgs: true, // matches does not retain them, and strings keep their NULs
	})
	return d, err
}

// matchesArguments implements the SQL function matches(value, parts of a pattern...).
func matchesArguments(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
	parts := make(kql.Pattern, len(args)-1)
	for i, arg := range args[1:] {
		parts[i], _ = arg.(string)
	}
	value, isText := args[0].(string)
	return isText && parts.Match(value), nil
}

// ofPattern matches a value against a pattern with wildcards. The text before the first
// wildcard uses an index.
func ofPattern(pattern kql.Pattern) predicate {
	return func(value string) condition {
		conditions := []condition{hasPrefix(value, pattern[0])}
		if _, isPrefix := pattern.Prefix(); !isPrefix {
			conditions = append(conditions, matchesPattern(value, pattern))
		}
		return allOf(conditions)
	}
}

func matchesPattern(value string, pattern kql.Pattern) condition {
	args := make([]any, len(pattern))
	for i, part := range pattern {
		args[i] = part
	}
	return where("matches("+value+strings.Repeat(", ?", len(args))+")", args...)
}

// hasPrefix is a range of texts, which can use an index.
func hasPrefix(value, prefix string) condition {
	if prefix == "" {
		return where("typeof(" + value + ") = 'text'")
	}
	end := []byte(prefix)
	end[len(end)-1]++ // UTF-8 has no byte 0xff, so this does not overflow
	return where(value+" >= ? AND "+value+" < ?", prefix, string(end))
}

package sqlite

import (
	"database/sql/driver"
	"strings"

	"modernc.org/sqlite"

	"github.com/watershipmq/watership/eventstore/kql"
)

// newDriver returns a driver of SQLite with two functions: matches(value, part, ...)
// matches a value against a pattern, since GLOB would stop at a NUL in the value, and
// term_value(word) returns the value of a word of the table term.
func newDriver() (*sqlite.Driver, error) {
	d := &sqlite.Driver{}
	err := d.RegisterFunction("matches", &sqlite.FunctionImpl{
		NArgs: -1, Deterministic: true, Scalar: matchesArguments,
		VolatileArgs: true, // matches does not retain them, and strings keep their NULs
	})
	if err != nil {
		return nil, err
	}
	err = d.RegisterFunction("term_value", &sqlite.FunctionImpl{NArgs: 1, Deterministic: true, Scalar: termValue})
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
	p := predicate{from: pattern[0]}
	if pattern[0] != "" {
		p.to = afterPrefix(pattern[0])
	}
	if _, isPrefix := pattern.Prefix(); !isPrefix {
		p.rest = func(value string) condition { return matchesPattern(value, pattern) }
	}
	p.test = func(value string) condition {
		conditions := []condition{hasPrefix(value, pattern[0])}
		if p.rest != nil {
			conditions = append(conditions, p.rest(value))
		}
		return allOf(conditions)
	}
	return p
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
	return where(value+" >= ? AND "+value+" < ?", prefix, afterPrefix(prefix))
}

// afterPrefix returns a text above all texts with a prefix. UTF-8 has no byte 0xff, so the
// addition does not overflow.
func afterPrefix(prefix string) string {
	end := []byte(prefix)
	end[len(end)-1]++
	return string(end)
}

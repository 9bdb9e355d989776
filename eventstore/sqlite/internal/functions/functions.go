// Package functions has the functions that SQLite gets for queries of events.
package functions

import (
	"database/sql/driver"
	"strings"

	"modernc.org/sqlite"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite/internal/analyzer"
)

// NewDriver returns a driver of SQLite with two functions: matches(value, part, ...)
// matches a value against a pattern, since GLOB would stop at a NUL in the value, and
// term_value(word) returns the value of a word of the table term.
func NewDriver() (*sqlite.Driver, error) {
	d := &sqlite.Driver{}
	err := d.RegisterFunction("matches", &sqlite.FunctionImpl{
		NArgs: -1, Deterministic: true, Scalar: matches,
		VolatileArgs: true, // matches does not retain them, and strings keep their NULs
	})
	if err != nil {
		return nil, err
	}
	err = d.RegisterFunction("term_value", &sqlite.FunctionImpl{NArgs: 1, Deterministic: true, Scalar: termValue})
	return d, err
}

// matches implements the SQL function matches(value, parts of a pattern...).
func matches(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
	parts := make(kql.Pattern, len(args)-1)
	for i, arg := range args[1:] {
		parts[i], _ = arg.(string)
	}
	value, isText := args[0].(string)
	return isText && parts.Match(value), nil
}

// termValue implements the SQL function term_value(word).
func termValue(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
	word, _ := args[0].(string)
	_, value, _ := strings.Cut(word, "=")
	return analyzer.KeywordOf(value), nil
}

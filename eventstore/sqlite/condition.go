package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"slices"
	"strings"
)

// condition is a boolean SQL expression on a row of the table event. Values of a
// query are never part of its text, but of its arguments.
type condition struct {
	sql      string
	args     []any
	subquery string // if not empty, a SELECT of n of all matching events
}

func where(sql string, args ...any) condition { return condition{sql: sql, args: args} }

// inSubquery is true of the events whose n a SELECT returns.
func inSubquery(subquery string, args ...any) condition {
	return condition{"event.n IN (" + subquery + ")", args, subquery}
}

// lowestNumber is the argument of a subquery for the lowest n to return. It is 0
// unless withLowest replaces it.
type lowestNumber struct{}

// Value implements driver.Valuer.
func (lowestNumber) Value() (driver.Value, error) { return int64(0), nil }

// withLowest limits all subqueries to events from n on.
func (c condition) withLowest(n int64) condition {
	args := make([]any, len(c.args))
	for i, arg := range c.args {
		if args[i] = arg; arg == any(lowestNumber{}) {
			args[i] = n
		}
	}
	c.args = args
	return c
}

// not is true where the condition is false or NULL, as for an event without the field.
func not(c condition) condition { return where("("+c.sql+") IS NOT TRUE", c.args...) }

// allOf intersects the subqueries first, before SQLite evaluates the other
// conditions on events.
func allOf(conditions []condition) condition {
	var subqueries, others []condition
	for _, c := range conditions {
		if c.subquery != "" {
			subqueries = append(subqueries, c)
			continue
		}
		others = append(others, c)
	}
	if len(subqueries) > 0 {
		others = append([]condition{intersection(subqueries)}, others...)
	}
	return join(others, " AND ", "TRUE")
}

func intersection(subqueries []condition) condition {
	if len(subqueries) == 1 {
		return subqueries[0]
	}
	half := len(subqueries) / 2
	a, b := intersection(subqueries[:half]), intersection(subqueries[half:])
	return inSubquery("SELECT n FROM ("+a.subquery+") INTERSECT SELECT n FROM ("+b.subquery+")", slices.Concat(a.args, b.args)...)
}

func anyOf(conditions []condition) condition { return join(conditions, " OR ", "FALSE") }

// join halves the list again and again: SQLite limits the depth of an expression,
// but not its length.
func join(conditions []condition, word, none string) condition {
	switch len(conditions) {
	case 0:
		return where(none)
	case 1:
		return conditions[0]
	}
	half := len(conditions) / 2
	a, b := join(conditions[:half], word, none), join(conditions[half:], word, none)
	return where("("+a.sql+")"+word+"("+b.sql+")", slices.Concat(a.args, b.args)...)
}

// unionOf is true where any of the conditions is. As a UNION, each condition uses the
// index of its own field.
func unionOf(conditions []condition) condition {
	if len(conditions) == 0 {
		return where("FALSE")
	}
	parts := make([]string, len(conditions))
	var args []any
	for i, c := range conditions {
		if c.subquery == "" {
			c = inSubquery("SELECT event.n FROM event WHERE ("+c.sql+") AND +event.n >= ?", append(c.args, lowestNumber{})...) // the + disables the index on n
		}
		parts[i] = "SELECT n FROM (" + c.subquery + ")"
		args = append(args, c.args...)
	}
	return inSubquery(strings.Join(parts, " UNION ALL "), args...)
}

// predicate makes a condition on the SQL expression of one value.
type predicate func(value string) condition

// compareWith compares a value with an operand.
func compareWith(operator string, operand any) predicate {
	return func(value string) condition { return where(value+" "+operator+" ?", operand) }
}

func between(low, high any) predicate {
	return func(value string) condition { return where(value+" BETWEEN ? AND ?", low, high) }
}

func notNull(value string) condition { return where(value + " IS NOT NULL") }

// oneOf checks that a value is one of the texts.
func oneOf(texts []string) predicate {
	list, _ := json.Marshal(append([]string{}, texts...)) // strings always marshal
	return func(value string) condition {
		return where(value+" IN (SELECT value FROM json_each(?))", string(list))
	}
}

// hasValue is true where a value of a field satisfies a predicate.
func (l layout) hasValue(location location, satisfies predicate) condition {
	switch {
	case location.column != "":
		return satisfies("event." + quoteName(location.column))
	case location.field == "":
		return where("FALSE")
	}
	keys, value := location.keyFilter(), satisfies("value")
	return inSubquery("SELECT n FROM term WHERE "+keys.sql+" AND ("+value.sql+") AND n >= ?", append(slices.Concat(keys.args, value.args), lowestNumber{})...)
}

// keyFilter selects the rows of the table term at a location.
func (p location) keyFilter() condition {
	if p.allKeys {
		return where("key IN (SELECT id FROM key WHERE field = ?)", p.field)
	}
	return where("key = (SELECT id FROM key WHERE field = ? AND name = ?)", p.field, p.key)
}

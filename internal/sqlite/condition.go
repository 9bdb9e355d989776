package sqlite

import (
	"encoding/json"
	"slices"
	"strings"
)

// condition is a part of SQL that is true or not of a row of the table event.
// What comes from a query is never in its text, but among its arguments.
type condition struct {
	sql  string
	args []any
}

func where(sql string, args ...any) condition { return condition{sql, args} }

// not is true where the condition is false or NULL: what has no such field.
func not(c condition) condition { return condition{"(" + c.sql + ") IS NOT TRUE", c.args} }

func allOf(conditions []condition) condition { return join(conditions, " AND ", "TRUE") }

func anyOf(conditions []condition) condition { return join(conditions, " OR ", "FALSE") }

// join halves the list again and again: SQLite bounds the depth of an expression
// and not its length.
func join(conditions []condition, word, none string) condition {
	switch len(conditions) {
	case 0:
		return where(none)
	case 1:
		return conditions[0]
	}
	half := len(conditions) / 2
	a, b := join(conditions[:half], word, none), join(conditions[half:], word, none)
	return condition{"(" + a.sql + ")" + word + "(" + b.sql + ")", slices.Concat(a.args, b.args)}
}

// eachBy is true where any of the conditions is, and has SQLite look for each
// by itself: of many fields, each has an index of its own.
func eachBy(conditions []condition) condition {
	if len(conditions) == 0 {
		return where("FALSE")
	}
	parts := make([]string, len(conditions))
	var args []any
	for i, c := range conditions {
		parts[i] = "SELECT event.n FROM event WHERE " + c.sql
		args = append(args, c.args...)
	}
	return condition{"event.n IN (" + strings.Join(parts, " UNION ALL ") + ")", args}
}

// A test is a condition on one value, which has this name in SQL.
type test func(value string) condition

// compared is the test of a value with another.
func compared(operator string, with any) test {
	return func(value string) condition { return where(value+" "+operator+" ?", with) }
}

func between(low, high any) test {
	return func(value string) condition { return where(value+" BETWEEN ? AND ?", low, high) }
}

func present(value string) condition { return where(value + " IS NOT NULL") }

// among is the test of whether a value is one of these texts.
func among(texts []string) test {
	list, _ := json.Marshal(append([]string{}, texts...)) // of texts it cannot fail
	return func(value string) condition {
		return where(value+" IN (SELECT value FROM json_each(?))", string(list))
	}
}

// holds is true where a value of a field passes a test.
func (l layout) holds(at place, passes test) condition {
	switch {
	case at.column != "":
		return passes("event." + name(at.column))
	case at.field == "":
		return where("FALSE")
	}
	keys, value := at.keys(), passes("value")
	return condition{
		"event.n IN (SELECT n FROM term WHERE key IN (" + keys.sql + ") AND " + value.sql + ")",
		append(keys.args, value.args...),
	}
}

// keys select the keys of the table term at a place.
func (p place) keys() condition {
	if p.all {
		return where("SELECT id FROM key WHERE field = ?", p.field)
	}
	return where("SELECT id FROM key WHERE field = ? AND name = ?", p.field, p.name)
}

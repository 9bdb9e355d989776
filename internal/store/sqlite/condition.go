package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"slices"
	"strings"
)

// condition is a part of SQL that is true or not of a row of the table event.
// What comes from a query is never in its text, but among its arguments.
type condition struct {
	sql  string
	args []any
	list string // if not empty, selects n of all events that it is true of
}

func where(sql string, args ...any) condition { return condition{sql: sql, args: args} }

// listed is true of the events whose n a statement selects.
func listed(list string, args ...any) condition {
	return condition{"event.n IN (" + list + ")", args, list}
}

// lowest is the argument of a list that says from which n on it is wanted: from
// the first on, unless from puts something else in its place.
type lowest struct{}

// Value implements driver.Valuer.
func (lowest) Value() (driver.Value, error) { return int64(0), nil }

// from is the condition where all lists begin with n.
func (c condition) from(n int64) condition {
	args := make([]any, len(c.args))
	for i, arg := range c.args {
		if args[i] = arg; arg == any(lowest{}) {
			args[i] = n
		}
	}
	c.args = args
	return c
}

// not is true where the condition is false or NULL: what has no such field.
func not(c condition) condition { return where("("+c.sql+") IS NOT TRUE", c.args...) }

// allOf looks for what is on all lists before it looks at events.
func allOf(conditions []condition) condition {
	var lists, others []condition
	for _, c := range conditions {
		if c.list != "" {
			lists = append(lists, c)
			continue
		}
		others = append(others, c)
	}
	if len(lists) > 0 {
		others = append([]condition{onAll(lists)}, others...)
	}
	return join(others, " AND ", "TRUE")
}

func onAll(lists []condition) condition {
	if len(lists) == 1 {
		return lists[0]
	}
	half := len(lists) / 2
	a, b := onAll(lists[:half]), onAll(lists[half:])
	return listed("SELECT n FROM ("+a.list+") INTERSECT SELECT n FROM ("+b.list+")", slices.Concat(a.args, b.args)...)
}

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
	return where("("+a.sql+")"+word+"("+b.sql+")", slices.Concat(a.args, b.args)...)
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
		if c.list == "" {
			c = listed("SELECT event.n FROM event WHERE ("+c.sql+") AND +event.n >= ?", append(c.args, lowest{})...) // +: not by that index
		}
		parts[i] = "SELECT n FROM (" + c.list + ")"
		args = append(args, c.args...)
	}
	return listed(strings.Join(parts, " UNION ALL "), args...)
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
	return listed("SELECT n FROM term WHERE "+keys.sql+" AND ("+value.sql+") AND n >= ?", append(slices.Concat(keys.args, value.args), lowest{})...)
}

// keys is true of the keys of the table term at a place.
func (p place) keys() condition {
	if p.all {
		return where("key IN (SELECT id FROM key WHERE field = ?)", p.field)
	}
	return where("key = (SELECT id FROM key WHERE field = ? AND name = ?)", p.field, p.name)
}

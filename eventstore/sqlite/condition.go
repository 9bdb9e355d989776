package sqlite

import (
	"database/sql/driver"
	"encoding/json"
	"slices"
	"strings"

	"github.com/watershipmq/watership/eventstore/sqlite/internal/analyzer"
)

// condition is a boolean SQL expression on a row of the table event. Values of a
// query are never part of its text, but of its arguments.
type condition struct {
	sql      string
	args     []any
	subquery string // if not empty, a SELECT of n of all matching events
	once     bool   // subquery has each n once
	byID     bool   // an index of ids finds all matching events, which are few as a rule

	withoutIndex *condition // the same without what only an index needs; or nil
}

func where(sql string, args ...any) condition { return condition{sql: sql, args: args} }

// inSubquery is true of the events whose n a SELECT returns.
func inSubquery(subquery string, args ...any) condition {
	return condition{sql: "event.n IN (" + subquery + ")", args: args, subquery: subquery}
}

// matching is true of the events with a word of the table term, by an SQL expression for a query of FTS5.
func matching(query string, args ...any) condition {
	found := inSubquery("SELECT rowid AS n FROM term WHERE term MATCH coalesce(("+query+"), '\"\"') AND rowid >= ?", append(args, lowestNumber{})...)
	found.once = true
	return found
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
func not(c condition) condition {
	if c.withoutIndex != nil {
		c = *c.withoutIndex
	}
	return where("("+c.sql+") IS NOT TRUE", c.args...)
}

// allOf intersects the subqueries first, before SQLite evaluates the other
// conditions on events.
func allOf(conditions []condition) condition {
	var subqueries, others []condition
	for _, c := range conditions {
		if c.sql == "TRUE" {
			continue
		}
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
	both := inSubquery("SELECT n FROM ("+a.subquery+") INTERSECT SELECT n FROM ("+b.subquery+")", slices.Concat(a.args, b.args)...)
	both.byID, both.once = a.byID || b.byID, true
	return both
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
	byID := a.byID && b.byID || word == " AND " && (a.byID || b.byID)
	return condition{sql: "(" + a.sql + ")" + word + "(" + b.sql + ")", args: slices.Concat(a.args, b.args), byID: byID}
}

// unionOf is true where any of the conditions is. As a UNION, each condition uses the
// index of its field.
func unionOf(conditions []condition) condition {
	switch len(conditions) {
	case 0:
		return where("FALSE")
	case 1: // indexes for the other conditions of the query count as well
		return conditions[0]
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
	union := inSubquery(strings.Join(parts, " UNION ALL "), args...)
	union.byID = !slices.ContainsFunc(conditions, func(c condition) bool { return !c.byID })
	return union
}

// predicate is a condition on a value. For the table term, it also says which texts can
// satisfy the condition.
type predicate struct {
	test func(value string) condition // of the SQL expression of a value

	any   bool     // all values satisfy it
	texts []string // all of them, if not nil; otherwise:
	from  string   // the lowest one
	to    string   // a text above the highest one; "" for no limit
	above bool     // from itself does not satisfy it

	// rest is the part of test that texts between from and to may not satisfy; or nil.
	rest func(value string) condition
}

// compareWith compares a value with an operand.
func compareWith(operator string, operand any) predicate {
	p := predicate{test: func(value string) condition { return where(value+" "+operator+" ?", operand) }}
	text, _ := operand.(string)
	switch operator {
	case "=":
		p.texts = []string{text}
	case ">", ">=":
		p.from, p.above = text, operator == ">"
	case "<":
		if p.to = text; text == "" {
			p.texts = []string{} // no text is below the empty one
		}
	case "<=":
		p.to = text + "\x00"
	}
	return p
}

func between(low, high any) predicate {
	return predicate{test: func(value string) condition { return where(value+" BETWEEN ? AND ?", low, high) }}
}

func notNull() predicate {
	return predicate{any: true, test: func(value string) condition { return where(value + " IS NOT NULL") }}
}

// oneOf checks that a value is one of the texts.
func oneOf(texts []string) predicate {
	texts = append([]string{}, texts...)
	list := jsonList(texts)
	return predicate{texts: texts, test: func(value string) condition {
		return where(value+" IN (SELECT value FROM json_each(?))", list)
	}}
}

func jsonList(texts []string) string {
	list, _ := json.Marshal(texts) // strings always marshal
	return string(list)
}

// hasValue is true where a value of a field satisfies a predicate.
func (l layout) hasValue(location location, satisfies predicate) condition {
	switch {
	case location.column != "":
		return satisfies.ofColumn(location.column)
	case location.field == "":
		return where("FALSE")
	case location.numeric:
		keys, value := location.keyFilter(), satisfies.test("value")
		return inSubquery("SELECT n FROM number WHERE key IN ("+keys.sql+") AND ("+value.sql+") AND n >= ?", append(slices.Concat(keys.args, value.args), lowestNumber{})...)
	}
	return satisfies.ofTerm(location)
}

// ofColumn uses the index of the ends of ids, if the column has one.
func (p predicate) ofColumn(column string) condition {
	quoted := "event." + quoteName(column)
	test := p.test(quoted)
	if p.texts == nil || !hasEndIndex(column) {
		return test
	}
	found := where("(substr("+quoted+", -16) IN (SELECT substr(value, -16) FROM json_each(?)) AND "+test.sql+")", append([]any{jsonList(p.texts)}, test.args...)...)
	if len(p.texts) == 1 {
		found = where("(substr("+quoted+", -16) = substr(?, -16) AND "+test.sql+")", append([]any{p.texts[0]}, test.args...)...)
	}
	found.byID, found.withoutIndex = true, &test
	return found
}

// hasEndIndex reports whether the index of a column has the ends of its values.
func hasEndIndex(column string) bool {
	return column == "event.id" || column == "watership.fingerprint"
}

// ofTerm is true where a term of the location satisfies the predicate.
func (p predicate) ofTerm(location location) condition {
	keys := location.keyFilter()
	words := "SELECT " + keyBeginningSQL + " AS beginning FROM key WHERE id IN (" + keys.sql + ")"
	switch {
	case len(p.texts) == 1 && !location.allKeys:
		return matching("SELECT '\"' || beginning || ? || '\"' FROM ("+words+")", slices.Concat([]any{strings.ReplaceAll(analyzer.Keyword(p.texts[0]), `"`, `""`)}, keys.args)...)
	case p.texts != nil:
		escaped := make([]string, len(p.texts))
		for i, text := range p.texts {
			escaped[i] = analyzer.Keyword(text)
		}
		return inSubquery("SELECT doc AS n FROM ("+words+") CROSS JOIN json_each(?) AS list CROSS JOIN posting ON posting.term = beginning || list.value WHERE doc >= ?",
			append(slices.Clone(keys.args), jsonList(escaped), lowestNumber{})...)
	}
	if p.any && !location.allKeys { // as one list, which is faster than a list for each value
		return matching("SELECT '\"' || beginning || '\" *' FROM ("+words+")", keys.args...)
	}
	return p.ofTermRange(words, keys.args)
}

func (p predicate) ofTermRange(words string, args []any) condition {
	from := "posting.term >= beginning || ?"
	if p.above {
		from = "posting.term > beginning || ?"
	}
	to, end := "posting.term < beginning || ?", analyzer.Keyword(p.to)
	if p.to == "" {
		to, end = "posting.term < rtrim(beginning, '=') || ?", ">"
	}
	args = append(slices.Clone(args), analyzer.Keyword(p.from), end)
	test := where("TRUE")
	if p.rest != nil {
		test = p.rest("term_value(posting.term)")
	}
	return inSubquery("SELECT doc AS n FROM ("+words+") CROSS JOIN posting ON "+from+" AND "+to+" WHERE "+test.sql+" AND doc >= ?",
		append(slices.Concat(args, test.args), lowestNumber{})...)
}

// keyFilter selects the ids of the keys of a location.
func (p location) keyFilter() condition {
	if p.allKeys {
		return where("SELECT id FROM key WHERE field = ?", p.field)
	}
	return where("SELECT id FROM key WHERE field = ? AND name = ?", p.field, p.key)
}

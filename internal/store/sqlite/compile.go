package sqlite

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/watershipmq/watership/schemas/query"
)

// compiler compiles a tree that query.Resolve has checked to SQL, with the meaning
// of elastic.Compile.
type compiler struct {
	layout
	now time.Time
}

var errRaw = errors.New("a query in Elasticsearch's own language (--dsl) is for a store in Elasticsearch: write it in KQL")

func (c compiler) compile(node query.Node) (condition, error) {
	switch n := node.(type) {
	case nil, query.All:
		return where("TRUE"), nil
	case query.And:
		conditions, err := c.compileAll(n)
		return allOf(conditions), err
	case query.Or:
		return c.or(n)
	case query.Not:
		negated, err := c.compile(n.Node)
		return not(negated), err
	case query.Raw:
		return condition{}, errRaw
	case query.Is:
		return c.is(n), nil
	case query.Exists:
		return c.existsByName(n.Field), nil
	case query.Range:
		return c.anyFieldOf(n.Field, n.Fits, func(f query.Field) condition { return c.rangeOf(f, n) }), nil
	default:
		return condition{}, fmt.Errorf("unknown query node of type %T", node)
	}
}

func (c compiler) or(n query.Or) (condition, error) {
	lists, others := c.fields.Together(n)
	conditions, err := c.compileAll(others)
	if len(lists) == 0 || err != nil {
		return anyOf(conditions), err
	}
	listed := make([]condition, len(lists))
	for i, list := range lists {
		listed[i] = c.hasValue(c.locate(list.Field), oneOf(list.Values))
	}
	if len(conditions) == 0 {
		return unionOf(listed), nil
	}
	return anyOf(append(conditions, unionOf(listed))), nil
}

func (c compiler) compileAll(nodes []query.Node) ([]condition, error) {
	conditions := make([]condition, len(nodes))
	for i, node := range nodes {
		var err error
		if conditions[i], err = c.compile(node); err != nil {
			return nil, err
		}
	}
	return conditions, nil
}

// anyFieldOf is true where any field with a name of this pattern matches.
func (c compiler) anyFieldOf(name query.Pattern, fits func(query.Field) bool, compile func(query.Field) condition) condition {
	var conditions []condition
	for _, field := range c.fields.Expand(name, fits) {
		conditions = append(conditions, compile(field))
	}
	if len(conditions) == 1 {
		return conditions[0]
	}
	return unionOf(conditions)
}

func (c compiler) is(n query.Is) condition {
	if n.Field == nil {
		return c.anywhere(n.Value)
	}
	return c.anyFieldOf(n.Field, n.Fits, func(f query.Field) condition { return c.field(f, n.Value) })
}

// anywhere searches all fields that can have the value.
func (c compiler) anywhere(value query.Value) condition {
	if value.Pattern.Any() {
		return where("TRUE")
	}
	var conditions []condition
	for _, piece := range splitValue(value) {
		conditions = append(conditions, c.everyField(piece))
	}
	return anyOf(conditions)
}

func (c compiler) everyField(value query.Value) condition {
	var conditions []condition
	for _, field := range c.fields.Known {
		if (query.Is{Value: value}).Fits(field) {
			conditions = append(conditions, c.field(field, value))
		}
	}
	return unionOf(conditions)
}

// splitValue splits only values with wildcards.
func splitValue(value query.Value) []query.Value {
	if !value.Pattern.Wild() {
		return []query.Value{value}
	}
	var list []query.Value
	for _, piece := range splitPattern(value.Pattern) {
		list = append(list, query.Value{Pattern: piece})
	}
	return list
}

func (c compiler) field(f query.Field, value query.Value) condition {
	text := value.Pattern.Text()
	switch {
	case f.Type == query.Text:
		return c.text(f, value)
	case value.Pattern.Wild():
		return c.hasValue(c.locate(f), ofPattern(value.Pattern))
	case f.Type == query.Date:
		return c.hasValue(c.locate(f), between(c.parseMillis(text, query.First), c.parseMillis(text, query.Last)))
	case f.Type == query.Long, f.Type == query.Double:
		return c.hasValue(c.locate(f), compareWith("=", parseNumber(text)))
	default:
		return c.hasValue(c.locate(f), compareWith("=", text))
	}
}

func (c compiler) text(f query.Field, value query.Value) condition {
	switch {
	case value.Pattern.Wild():
		var conditions []condition
		for _, piece := range splitPattern(value.Pattern) {
			conditions = append(conditions, c.textPiece(f, piece))
		}
		return anyOf(conditions)
	case value.Quoted:
		return phrase(f.Name, value.Pattern.Text())
	default:
		return anyWord(f.Name, value.Pattern.Text())
	}
}

func (c compiler) textPiece(f query.Field, piece query.Pattern) condition {
	switch {
	case piece.Any():
		return c.exists(f)
	case piece.Wild():
		return wordPattern(f.Name, piece)
	default:
		return anyWord(f.Name, piece.Text())
	}
}

// existsByName is true of events with the field or, for an object, with any field in it.
func (c compiler) existsByName(name query.Pattern) condition {
	if below := c.fields.Below(name.Text()); !name.Wild() && len(below) > 0 {
		conditions := make([]condition, len(below))
		for i, field := range below {
			conditions[i] = c.exists(field)
		}
		return unionOf(conditions)
	}
	return c.anyFieldOf(name, func(query.Field) bool { return true }, c.exists)
}

// exists uses the mark in the table event for a field with keys.
func (c compiler) exists(f query.Field) condition {
	at := c.locate(f)
	if _, marked := c.column[at.field]; marked && at.allKeys {
		at = location{column: at.field}
	}
	return c.hasValue(at, notNull)
}

// rangeOf compares the words of a text one by one, as Elasticsearch does.
func (c compiler) rangeOf(f query.Field, n query.Range) condition {
	text, op := n.Value.Pattern.Text(), string(n.Op)
	switch f.Type {
	case query.Text:
		return wordWhere(f.Name, compareWith(op, text))
	case query.Date:
		return c.hasValue(c.locate(f), compareWith(op, c.parseMillis(text, n.Op.End())))
	case query.Long, query.Double:
		return c.hasValue(c.locate(f), compareWith(op, parseNumber(text)))
	default:
		return c.hasValue(c.locate(f), compareWith(op, text))
	}
}

// parseMillis ignores the error: query.Resolve has refused every invalid date.
func (c compiler) parseMillis(text string, end query.End) int64 {
	at, _ := query.Instant(text, c.now.UTC(), end)
	return at.UnixMilli()
}

// parseNumber is exact for integers. SQLite compares both types of numbers.
func parseNumber(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	f, _ := strconv.ParseFloat(text, 64)
	return f
}

package sqlite

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/watershipmq/watership/schemas/query"
)

// compiler makes SQL of a tree that query.Resolve has checked. It means what
// elastic.Compile makes of the same tree.
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
		return c.existing(n.Field), nil
	case query.Range:
		return c.either(n.Field, n.Fits, func(f query.Field) condition { return c.ranged(f, n) }), nil
	default:
		return condition{}, fmt.Errorf("a query node of type %T is not known", node)
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
		listed[i] = c.holds(c.place(list.Field), among(list.Values))
	}
	if len(conditions) == 0 {
		return eachBy(listed), nil
	}
	return anyOf(append(conditions, eachBy(listed))), nil
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

// either is true where any of the fields that a name stands for answers.
func (c compiler) either(name query.Pattern, fits func(query.Field) bool, compile func(query.Field) condition) condition {
	var conditions []condition
	for _, field := range c.fields.Expand(name, fits) {
		conditions = append(conditions, compile(field))
	}
	if len(conditions) == 1 {
		return conditions[0]
	}
	return eachBy(conditions)
}

func (c compiler) is(n query.Is) condition {
	if n.Field == nil {
		return c.anywhere(n.Value)
	}
	return c.either(n.Field, n.Fits, func(f query.Field) condition { return c.field(f, n.Value) })
}

// anywhere asks all fields that can have the value.
func (c compiler) anywhere(value query.Value) condition {
	if value.Pattern.Any() {
		return where("TRUE")
	}
	var conditions []condition
	for _, piece := range piecesOf(value) {
		conditions = append(conditions, c.anyField(piece))
	}
	return anyOf(conditions)
}

func (c compiler) anyField(value query.Value) condition {
	var conditions []condition
	for _, field := range c.fields.Known {
		if (query.Is{Value: value}).Fits(field) {
			conditions = append(conditions, c.field(field, value))
		}
	}
	return eachBy(conditions)
}

// piecesOf takes only a value with wildcards apart.
func piecesOf(value query.Value) []query.Value {
	if !value.Pattern.Wild() {
		return []query.Value{value}
	}
	var list []query.Value
	for _, piece := range pieces(value.Pattern) {
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
		return c.holds(c.place(f), matching(value.Pattern))
	case f.Type == query.Date:
		return c.holds(c.place(f), between(c.millis(text, query.First), c.millis(text, query.Last)))
	case f.Type == query.Long, f.Type == query.Double:
		return c.holds(c.place(f), compared("=", number(text)))
	default:
		return c.holds(c.place(f), compared("=", text))
	}
}

func (c compiler) text(f query.Field, value query.Value) condition {
	switch {
	case value.Pattern.Wild():
		var conditions []condition
		for _, piece := range pieces(value.Pattern) {
			conditions = append(conditions, c.piece(f, piece))
		}
		return anyOf(conditions)
	case value.Quoted:
		return phrase(f.Name, value.Pattern.Text())
	default:
		return anyWord(f.Name, value.Pattern.Text())
	}
}

func (c compiler) piece(f query.Field, piece query.Pattern) condition {
	switch {
	case piece.Any():
		return c.exists(f)
	case piece.Wild():
		return wordPattern(f.Name, piece)
	default:
		return anyWord(f.Name, piece.Text())
	}
}

// existing is true of what has the field, or one of those below an object.
func (c compiler) existing(name query.Pattern) condition {
	if below := c.fields.Below(name.Text()); !name.Wild() && len(below) > 0 {
		conditions := make([]condition, len(below))
		for i, field := range below {
			conditions[i] = c.exists(field)
		}
		return eachBy(conditions)
	}
	return c.either(name, func(query.Field) bool { return true }, c.exists)
}

// exists of all keys of a field is a mark in the table event.
func (c compiler) exists(f query.Field) condition {
	at := c.place(f)
	if _, marked := c.column[at.field]; marked && at.all {
		at = place{column: at.field}
	}
	return c.holds(at, present)
}

// ranged compares the words of a text, one by one, as Elasticsearch does.
func (c compiler) ranged(f query.Field, n query.Range) condition {
	text, op := n.Value.Pattern.Text(), string(n.Op)
	switch f.Type {
	case query.Text:
		return wordTested(f.Name, compared(op, text))
	case query.Date:
		return c.holds(c.place(f), compared(op, c.millis(text, n.Op.End())))
	case query.Long, query.Double:
		return c.holds(c.place(f), compared(op, number(text)))
	default:
		return c.holds(c.place(f), compared(op, text))
	}
}

// millis is a date as it is kept. query.Resolve has refused what is none.
func (c compiler) millis(text string, end query.End) int64 {
	at, _ := query.Instant(text, c.now.UTC(), end)
	return at.UnixMilli()
}

// number is exact where it is whole, and compares with both kinds.
func number(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	f, _ := strconv.ParseFloat(text, 64)
	return f
}

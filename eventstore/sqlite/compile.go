package sqlite

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite/internal/analyzer"
)

// compiler compiles a tree that kql.Resolve has checked to SQL, with the meaning
// of elastic.compile.
type compiler struct {
	layout
	now time.Time
}

var errRawQuery = errors.New("a query in Elasticsearch's own language is for a store in Elasticsearch: write it in KQL")

func (c compiler) compile(node kql.Node) (condition, error) {
	switch n := node.(type) {
	case nil, kql.All:
		return where("TRUE"), nil
	case kql.And:
		conditions, err := c.compileAll(n)
		return allOf(conditions), err
	case kql.Or:
		return c.compileOr(n)
	case kql.Not:
		negated, err := c.compile(n.Node)
		return not(negated), err
	case kql.Raw:
		return condition{}, errRawQuery
	case kql.Is:
		return c.compileIs(n), nil
	case kql.Exists:
		return c.compileExists(n.Field), nil
	case kql.Range:
		return c.anyFieldOf(n.Field, n.Fits, func(f kql.Field) condition { return c.compileFieldRange(f, n) }), nil
	default:
		return condition{}, fmt.Errorf("unknown query node of type %T", node)
	}
}

func (c compiler) compileOr(n kql.Or) (condition, error) {
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

func (c compiler) compileAll(nodes []kql.Node) ([]condition, error) {
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
func (c compiler) anyFieldOf(name kql.Pattern, fits func(kql.Field) bool, compile func(kql.Field) condition) condition {
	var conditions []condition
	for _, field := range c.fields.Expand(name, fits) {
		conditions = append(conditions, compile(field))
	}
	return unionOf(conditions)
}

func (c compiler) compileIs(n kql.Is) condition {
	if n.Field == nil {
		return c.compileAnywhere(n.Value)
	}
	return c.anyFieldOf(n.Field, n.Fits, func(f kql.Field) condition { return c.compileFieldIs(f, n.Value) })
}

// compileAnywhere compiles the search for a value in all fields that can have it.
func (c compiler) compileAnywhere(value kql.Value) condition {
	if value.Pattern.Any() {
		return where("TRUE")
	}
	var conditions []condition
	for _, piece := range splitWildcards(value) {
		conditions = append(conditions, c.compilePieceAnywhere(piece))
	}
	return anyOf(conditions)
}

func (c compiler) compilePieceAnywhere(value kql.Value) condition {
	var conditions []condition
	for _, field := range c.fields.Known {
		if (kql.Is{Value: value}).Fits(field) {
			conditions = append(conditions, c.compileFieldIs(field, value))
		}
	}
	return unionOf(conditions)
}

// splitWildcards splits a value with wildcards into its words, and no other value.
func splitWildcards(value kql.Value) []kql.Value {
	if !value.Pattern.Wild() {
		return []kql.Value{value}
	}
	var list []kql.Value
	for _, piece := range analyzer.SplitPattern(value.Pattern) {
		list = append(list, kql.Value{Pattern: piece})
	}
	return list
}

func (c compiler) compileFieldIs(f kql.Field, value kql.Value) condition {
	text := value.Pattern.Text()
	switch {
	case f.Type == kql.Text:
		return c.compileTextIs(f, value)
	case value.Pattern.Wild():
		return c.hasValue(c.locate(f), ofPattern(value.Pattern))
	case f.Type == kql.Date:
		return c.hasValue(c.locate(f), between(c.parseMillis(text, kql.First), c.parseMillis(text, kql.Last)))
	case f.Type == kql.Long, f.Type == kql.Double:
		return c.hasValue(c.locate(f), compareWith("=", parseNumber(text)))
	default:
		return c.hasValue(c.locate(f), compareWith("=", text))
	}
}

func (c compiler) compileTextIs(f kql.Field, value kql.Value) condition {
	switch {
	case value.Pattern.Wild():
		var conditions []condition
		for _, piece := range analyzer.SplitPattern(value.Pattern) {
			conditions = append(conditions, c.compileTextPiece(f, piece))
		}
		return anyOf(conditions)
	case value.Quoted:
		return phrase(f.Name, value.Pattern.Text())
	default:
		return anyWord(f.Name, value.Pattern.Text())
	}
}

func (c compiler) compileTextPiece(f kql.Field, piece kql.Pattern) condition {
	switch {
	case piece.Any():
		return c.compileFieldExists(f)
	case piece.Wild():
		return wordPattern(f.Name, piece)
	default:
		return anyWord(f.Name, piece.Text())
	}
}

// compileExists compiles the search for events with a field or, for an object, with any
// field in it.
func (c compiler) compileExists(name kql.Pattern) condition {
	if below := c.fields.Below(name.Text()); !name.Wild() && len(below) > 0 {
		conditions := make([]condition, len(below))
		for i, field := range below {
			conditions[i] = c.compileFieldExists(field)
		}
		return unionOf(conditions)
	}
	return c.anyFieldOf(name, func(kql.Field) bool { return true }, c.compileFieldExists)
}

// compileFieldExists uses the mark in the table event for a field with keys.
func (c compiler) compileFieldExists(f kql.Field) condition {
	at := c.locate(f)
	if _, marked := c.columnIndex[at.field]; marked && at.allKeys {
		at = location{column: at.field}
	}
	return c.hasValue(at, notNull())
}

// compileFieldRange compares the words of a text one by one, as Elasticsearch does.
func (c compiler) compileFieldRange(f kql.Field, n kql.Range) condition {
	text, op := n.Value.Pattern.Text(), string(n.Op)
	switch f.Type {
	case kql.Text:
		return wordWhere(f.Name, compareWith(op, text))
	case kql.Date:
		return c.hasValue(c.locate(f), compareWith(op, c.parseMillis(text, n.Op.End())))
	case kql.Long, kql.Double:
		return c.hasValue(c.locate(f), compareWith(op, parseNumber(text)))
	default:
		return c.hasValue(c.locate(f), compareWith(op, text))
	}
}

// parseMillis ignores the error: kql.Resolve has refused every invalid date.
func (c compiler) parseMillis(text string, end kql.End) int64 {
	at, _ := kql.Instant(text, c.now.UTC(), end)
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

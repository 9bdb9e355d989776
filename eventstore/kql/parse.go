package kql

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth is the greatest nesting depth of parentheses. Only they make the parser, and
// functions on a tree, recurse. Elasticsearch takes 30 conditions within one another, and
// SQLite needs a minute to prepare a statement with 200.
const maxDepth = 25

// Parse converts the text of a query to a tree. Its error is a *SyntaxError.
//
//	or      = and { "or" and }
//	and     = not { "and" not }
//	not     = [ "not" ] group
//	group   = "(" or ")" | clause
//	clause  = field ":" values | field comparison literal | literal
//	values  = like or, with a literal for a clause
//	literal = quoted | unquoted
func Parse(text string) (Node, error) {
	p := &parser{scanner: scanner{text: text}}
	if !utf8.ValidString(text) {
		return nil, p.fail(invalidAt(text), "bytes that are not UTF-8", "text", "")
	}
	if p.spaces(); p.rest() == "" {
		return All{}, nil
	}
	node, err := p.or(p.clause)
	if err != nil {
		return nil, err
	}
	if p.spaces(); p.rest() != "" {
		return nil, p.joinExpected("the end of the query")
	}
	return node, nil
}

type parser struct {
	scanner
	depth int
}

// operand parses one operand of "and", "or", "not" or parentheses.
type operand func() (Node, error)

func (p *parser) or(next operand) (Node, error) {
	nodes, err := p.list("or", func() (Node, error) { return p.and(next) })
	if err != nil || len(nodes) > 1 {
		return Or(nodes), err
	}
	return nodes[0], nil
}

func (p *parser) and(next operand) (Node, error) {
	nodes, err := p.list("and", func() (Node, error) { return p.not(next) })
	if err != nil || len(nodes) > 1 {
		return And(nodes), err
	}
	return nodes[0], nil
}

func (p *parser) list(word string, next operand) ([]Node, error) {
	var nodes []Node
	for {
		node, err := next()
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
		if !p.joined(word) {
			return nodes, nil
		}
	}
}

// not accepts one "not" only: as in Kibana a second one needs parentheses.
func (p *parser) not(next operand) (Node, error) {
	if !p.negated() {
		return p.group(next)
	}
	node, err := p.group(next)
	return Not{node}, err
}

func (p *parser) group(next operand) (Node, error) {
	if !p.take("(") {
		return next()
	}
	if p.depth++; p.depth > maxDepth {
		return nil, p.fail(p.pos-1, "one more parenthesis", fmt.Sprintf("at most %d within one another", maxDepth), "")
	}
	p.spaces()
	node, err := p.or(next)
	if err != nil {
		return nil, err
	}
	if p.spaces(); !p.take(")") {
		return nil, p.joinExpected(`")"`)
	}
	p.depth--
	return node, nil
}

func (p *parser) clause() (Node, error) {
	head, err := p.literal(`a field, a value or "("`)
	if err != nil {
		return nil, err
	}
	end := p.pos
	p.spaces()
	if p.take(":") {
		return p.values(head)
	}
	for _, op := range []Op{LessOrEqual, Less, GreaterOrEqual, Greater} {
		if p.take(string(op)) {
			return p.comparison(head, op)
		}
	}
	p.pos = end
	return Is{Value: head, At: head.At}, nil
}

// values reads one value or a group of values after `field:`.
func (p *parser) values(field Value) (Node, error) {
	p.spaces()
	return p.group(func() (Node, error) {
		value, err := p.literal(`a value, "*" or "("`)
		switch {
		case err != nil:
			return nil, err
		case !value.Pattern.Any():
			return Is{Field: field.Pattern, Value: value, At: field.At}, nil
		case field.Pattern.Any():
			return All{}, nil
		default:
			return Exists{Field: field.Pattern, At: field.At}, nil
		}
	})
}

// comparison reads the value after `field >`. Kibana treats a wildcard there as a
// letter, which finds nothing; here it is an error.
func (p *parser) comparison(field Value, op Op) (Node, error) {
	p.spaces()
	value, err := p.literal("a value")
	if err != nil {
		return nil, err
	}
	if value.Pattern.Wild() {
		return nil, p.fail(value.At.Offset, strconv.Quote(value.Pattern.Text()), "a value without wildcards", `write \* for the character *`)
	}
	return Range{Field: field.Pattern, Op: op, Value: value, At: field.At}, nil
}

func (p *parser) literal(expected string) (Value, error) {
	at := p.here()
	if strings.HasPrefix(p.rest(), `"`) {
		text, err := p.quoted()
		return Value{Pattern: Pattern{text}, Quoted: true, At: at}, err
	}
	pattern, err := p.bare()
	if err != nil {
		return Value{}, err
	}
	if p.pos == at.Offset {
		return Value{}, p.literalExpected(expected)
	}
	if !pattern.Wild() && pattern.Text() == "" {
		return Value{}, p.fail(at.Offset, "only white space", expected, "put white space that matters in quotes")
	}
	return Value{Pattern: pattern, At: at}, nil
}

// joinExpected returns the error of a clause that does not end at its expected end.
func (p *parser) joinExpected(end string) *SyntaxError {
	hint := ""
	switch {
	case keywordAt(p.rest(), "not"):
		hint = `write "and not"`
	case strings.HasPrefix(p.rest(), ":"):
		hint = `a value that has a colon needs quotes, or \: for the colon`
	}
	return p.fail(p.pos, p.found(), `"and", "or" or `+end, hint)
}

func (p *parser) literalExpected(expected string) *SyntaxError {
	hint := ""
	switch {
	case keywordAt(p.rest(), "not"):
		hint = `"not" needs parentheses here: (not value)`
	case strings.HasPrefix(p.rest(), "{"):
		hint = "there are no nested fields: write field.key: value"
	}
	return p.fail(p.pos, p.found(), expected, hint)
}

func invalidAt(text string) int {
	for i, r := range text {
		if _, size := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && size == 1 {
			return i
		}
	}
	return len(text)
}

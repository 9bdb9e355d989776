// Package kql implements Kibana's query language (KQL), so that a query means
// the same in Watership, in Kibana and in a script:
//
//	event.action: poisoned and headers.tenant: (acme or umbrella) and not error.type: Timeout*
//
// A query passes three steps. [Parse] converts a text to a tree without regard to
// fields; [Resolve] checks the tree against the fields of a store; the store
// compiles the resolved tree. A tree prints itself as a query that parses to an
// equal tree.
//
// The rules follow Kibana's package kbn-es-query: grammar.peggy for the syntax,
// functions/is.ts and range.ts for the meaning. Comments name the differences. It does
// not read Lucene's syntax, nor Elasticsearch's query_string.
package kql

// Node is a query or a part of one: [All], [And], [Or], [Not], [Is], [Exists] or
// [Range].
type Node interface {
	// String returns the node in canonical form. Parse returns an equal node for
	// it, if Parse can return this node at all.
	String() string
	node()
}

// All matches every document. It is the empty query, and `*: *`.
type All struct{}

// And matches the documents that all of its nodes match. Parse returns it with two
// nodes or more.
type And []Node

// Or matches the documents that any of its nodes matches. Parse returns it with two
// nodes or more.
type Or []Node

// Not matches the documents that its node does not match.
type Not struct{ Node Node }

// Is matches a value in a field. If Field is nil, the store chooses the fields to
// search.
type Is struct {
	Field Pattern
	Value Value
	At    Place
}

// FieldIs matches exactly one value in a field, without wildcards.
func FieldIs(field, value string) Is {
	return Is{Field: Pattern{field}, Value: Value{Pattern: Pattern{value}, Quoted: true}}
}

// Exists matches documents in which the field has any value: `field: *`.
type Exists struct {
	Field Pattern
	At    Place
}

// Range compares a field with a value without wildcards.
type Range struct {
	Field Pattern
	Op    Op
	Value Value
	At    Place
}

// Op is the operator of a Range.
type Op string

// The operators, as a query contains them.
const (
	Less           Op = "<"
	LessOrEqual    Op = "<="
	Greater        Op = ">"
	GreaterOrEqual Op = ">="
)

// Value is the operand of a comparison. A quoted value has no wildcards and is a
// phrase: its words in this order. An unquoted value extends to the next operator,
// so it may have spaces inside but none around it.
type Value struct {
	Pattern Pattern
	Quoted  bool
	At      Place
}

// Place is a position in the text of a query, for error messages. Equal ignores it.
// The zero value is an unknown position.
type Place struct {
	Query  string
	Offset int // in bytes
}

func (All) node()    {}
func (And) node()    {}
func (Or) node()     {}
func (Not) node()    {}
func (Is) node()     {}
func (Exists) node() {}
func (Range) node()  {}

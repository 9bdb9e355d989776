// Package query is Kibana's query language (KQL), so that a query means the
// same here, in Kibana and in a script:
//
//	event.action: poisoned and headers.tenant: (acme or umbrella) and not error.type: Timeout*
//
// The steps are apart. [Parse] makes a tree of a text and knows nothing of
// fields; [Resolve] checks the tree against the fields that there are; a store
// compiles what comes out. A tree prints itself as a query that parses to an
// equal tree.
//
// The rules are those of the package kbn-es-query of Kibana: grammar.peggy for
// the language, functions/is.ts and range.ts for what it means. Where we differ
// the comment says so.
package query

// A Node is a query or a part of one: [All], [And], [Or], [Not], [Is],
// [Exists] or [Range].
type Node interface {
	// String is the node in canonical form: Parse makes an equal node of it,
	// provided that Parse could have made this one.
	String() string
	node()
}

// All matches every document. It is the empty query, and `*: *`.
type All struct{}

// And matches what all of its nodes match; Parse gives it two or more.
type And []Node

// Or matches what any of its nodes matches; Parse gives it two or more.
type Or []Node

// Not matches what its node does not.
type Not struct{ Node Node }

// Is asks for a value in a field, or in any field of the store's choice if
// Field is nil.
type Is struct {
	Field Pattern
	Value Value
	At    Place
}

// Exists asks for documents in which the field has any value: `field: *`.
type Exists struct {
	Field Pattern
	At    Place
}

// Range compares a field with a value, which has no wildcards.
type Range struct {
	Field Pattern
	Op    Op
	Value Value
	At    Place
}

// Op is how a Range compares.
type Op string

// The comparisons, as they are written.
const (
	Less           Op = "<"
	LessOrEqual    Op = "<="
	Greater        Op = ">"
	GreaterOrEqual Op = ">="
)

// Value is what a field is compared with. A quoted value has no wildcards and
// means a phrase: its words in this order. One without quotes is everything up
// to the next operator, so it may have spaces within but none around it.
type Value struct {
	Pattern Pattern
	Quoted  bool
	At      Place
}

// Place is where in the text of a query something stands. It is there for
// errors only: Equal ignores it, and its zero value is a place not known.
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

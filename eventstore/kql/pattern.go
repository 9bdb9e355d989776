package kql

import (
	"slices"
	"strings"
)

// Pattern is a text with wildcards, as a list of the texts before, between and after
// them. So an escaped `*` is an ordinary character.
//
//	order    Pattern{"order"}
//	order*   Pattern{"order", ""}
//	*        Pattern{"", ""}
type Pattern []string

// MaxWildcards is the maximum number of wildcards in a pattern. SQLite's functions have at most
// 127 arguments, and Elasticsearch builds an automaton for each pattern.
const MaxWildcards = 32

// Wild reports whether the pattern has wildcards.
func (p Pattern) Wild() bool { return len(p) > 1 }

// Any reports whether the pattern is a single `*`. As in Kibana, `**` is not:
// it is a value with two wildcards.
func (p Pattern) Any() bool { return len(p) == 2 && p[0] == "" && p[1] == "" }

// Prefix returns the text before the wildcard, if the pattern's only wildcard is at
// its end.
func (p Pattern) Prefix() (string, bool) {
	if len(p) != 2 || p[1] != "" {
		return "", false
	}
	return p[0], true
}

// Text returns the pattern with `*` for the wildcards: the text itself if there are
// none.
func (p Pattern) Text() string { return strings.Join(p, "*") }

// Join converts the pattern to another language: its texts, escaped by escape, with
// that language's wildcard between them.
func (p Pattern) Join(wildcard string, escape func(string) string) string {
	parts := make([]string, len(p))
	for i, part := range p {
		parts[i] = escape(part)
	}
	return strings.Join(parts, wildcard)
}

// Match reports whether the whole of text matches the pattern.
func (p Pattern) Match(text string) bool {
	if !p.Wild() {
		return text == p.Text()
	}
	text, ok := strings.CutPrefix(text, p[0])
	if !ok {
		return false
	}
	last := len(p) - 1
	for _, part := range p[1:last] {
		if _, text, ok = strings.Cut(text, part); !ok {
			return false
		}
	}
	return strings.HasSuffix(text, p[last])
}

// Equal reports whether two trees have the same nodes in the same shape, whatever
// their places.
func Equal(a, b Node) bool {
	switch a := a.(type) {
	case And:
		b, ok := b.(And)
		return ok && slices.EqualFunc(a, b, Equal)
	case Or:
		b, ok := b.(Or)
		return ok && slices.EqualFunc(a, b, Equal)
	case Not:
		b, ok := b.(Not)
		return ok && Equal(a.Node, b.Node)
	case Is:
		b, ok := b.(Is)
		return ok && slices.Equal(a.Field, b.Field) && a.Value.equal(b.Value)
	case Exists:
		b, ok := b.(Exists)
		return ok && slices.Equal(a.Field, b.Field)
	case Range:
		b, ok := b.(Range)
		return ok && slices.Equal(a.Field, b.Field) && a.Op == b.Op && a.Value.equal(b.Value)
	default:
		return a == b
	}
}

func (v Value) equal(other Value) bool {
	return v.Quoted == other.Quoted && slices.Equal(v.Pattern, other.Pattern)
}

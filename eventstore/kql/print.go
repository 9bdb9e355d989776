package kql

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

func (All) String() string { return "*: *" }

func (n And) String() string { return join(n, n, " and ") }

func (n Or) String() string { return join(n, n, " or ") }

func (n Not) String() string { return "not " + within(n, n.Node) }

func (n Is) String() string {
	if n.Field == nil {
		return n.Value.String()
	}
	return fieldString(n.Field) + ": " + n.Value.String()
}

func (n Exists) String() string { return fieldString(n.Field) + ": *" }

func (n Range) String() string {
	return fieldString(n.Field) + " " + string(n.Op) + " " + n.Value.String()
}

// String returns the value as a query contains it.
func (v Value) String() string {
	if v.Quoted {
		return quote(v.Pattern.Text())
	}
	return bare(v.Pattern)
}

// fieldString quotes a name only if it must: quotes around a field have no meaning.
func fieldString(field Pattern) string {
	name := field.Text()
	if !field.Wild() && (name == "" || name != trim(Pattern{name}).Text()) {
		return quote(name)
	}
	return bare(field)
}

func join(outer Node, nodes []Node, word string) string {
	parts := make([]string, len(nodes))
	for i, node := range nodes {
		parts[i] = within(outer, node)
	}
	return strings.Join(parts, word)
}

// within prints a node inside another, in parentheses if it would not parse as one
// node otherwise. The parentheses of `(a and b) and c` stay, since the tree has
// them.
func within(outer, inner Node) string {
	switch inner.(type) {
	case Or:
		return "(" + inner.String() + ")"
	case And:
		if _, ok := outer.(Or); !ok {
			return "(" + inner.String() + ")"
		}
	case Not:
		if _, ok := outer.(Not); ok {
			return "(" + inner.String() + ")"
		}
	}
	return inner.String()
}

func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		if r == '\\' || r == '"' {
			b.WriteByte('\\')
		}
		b.WriteString(printable(r))
	}
	return b.String() + `"`
}

// bare prints a pattern without quotes.
func bare(pattern Pattern) string {
	var b strings.Builder
	for i, part := range pattern {
		if i > 0 {
			b.WriteByte('*')
		}
		bareText(&b, part, i == 0)
	}
	return b.String()
}

// bareText escapes every keyword, even where Parse would not read it as one, since
// bareText does not know the text that follows.
func bareText(b *strings.Builder, text string, wordBegins bool) {
	for i, r := range text {
		if strings.ContainsRune(special, r) || wordBegins && beginsKeyword(text[i:]) {
			b.WriteByte('\\')
		}
		if r == '\n' && hasFold(text[i+1:], "ot") {
			b.WriteString(codeUnits(r)) // without an escape it would look like an escaped "not"
		} else {
			b.WriteString(printable(r))
		}
		wordBegins = r == ' ' // other white space is escaped
	}
}

func beginsKeyword(text string) bool {
	if end := strings.IndexFunc(text, isSpace); end >= 0 {
		text = text[:end]
	}
	return strings.EqualFold(text, "and") || strings.EqualFold(text, "or") || strings.EqualFold(text, "not")
}

// printable escapes invisible characters, and characters that could control a
// terminal.
func printable(r rune) string {
	switch {
	case r == '\t':
		return `\t`
	case r == '\r':
		return `\r`
	case r == '\n':
		return `\n`
	case unicode.IsPrint(r):
		return string(r)
	default:
		return codeUnits(r)
	}
}

func codeUnits(r rune) string {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return fmt.Sprintf(`\u%04X\u%04X`, high, low)
	}
	return fmt.Sprintf(`\u%04X`, r)
}

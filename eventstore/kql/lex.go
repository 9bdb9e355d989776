package kql

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// special are the characters that an unquoted literal must escape.
const special = `\():<>"*{}`

// scanner splits the text of a query into words. The meaning of a word depends on
// its place ("or" begins a value, but joins two), so the parser asks for the words
// that are valid next instead of receiving tokens.
type scanner struct {
	text  string
	pos   int
	begin int // of the current unquoted literal
}

func (s *scanner) rest() string { return s.text[s.pos:] }

func (s *scanner) here() Place { return Place{Query: s.text, Offset: s.pos} }

func (s *scanner) take(text string) bool {
	if !strings.HasPrefix(s.rest(), text) {
		return false
	}
	s.pos += len(text)
	return true
}

func (s *scanner) spaces() {
	s.pos = len(s.text) - len(strings.TrimLeftFunc(s.rest(), isSpace))
}

// joined reads "and" or "or" between two operands. It needs space on both sides:
// `(a)or(b)` is an error in Kibana too.
func (s *scanner) joined(word string) bool {
	start := s.pos
	s.spaces()
	if s.pos > start && keywordAt(s.rest(), word) {
		s.pos += len(word)
		s.spaces()
		return true
	}
	s.pos = start
	return false
}

// negated reads a "not" before an operand.
func (s *scanner) negated() bool {
	if !keywordAt(s.rest(), "not") {
		return false
	}
	s.pos += len("not")
	s.spaces()
	return true
}

// bare reads an unquoted literal: everything up to a special character or a
// keyword, without the space around it (rule UnquotedLiteral).
func (s *scanner) bare() (Pattern, error) {
	var parts Pattern
	var part strings.Builder
	for s.begin = s.pos; !s.bareEnds(); {
		if s.take("*") {
			if len(parts) == MaxWildcards {
				return nil, s.fail(s.pos-1, "one more wildcard", fmt.Sprintf("at most %d in a value or a name", MaxWildcards), "")
			}
			parts = append(parts, part.String())
			part.Reset()
			continue
		}
		text, err := s.character()
		if err != nil {
			return nil, err
		}
		part.WriteString(text)
	}
	return trim(append(parts, part.String())), nil
}

// bareEnds reports whether an unquoted literal ends here, by the lookaheads of the
// rule UnquotedCharacter. Kibana ends it at "not" within a word too, so that
// `cannot connect` is an error there; here it is a value.
func (s *scanner) bareEnds() bool {
	rest := s.rest()
	if rest == "" {
		return true
	}
	if size := spaceAt(rest); size > 0 {
		return keywordAt(rest[size:], "and") || keywordAt(rest[size:], "or")
	}
	if s.wordBegins() && keywordAt(rest, "not") {
		return true
	}
	return rest[0] != '\\' && rest[0] != '*' && strings.IndexByte(special, rest[0]) >= 0
}

func (s *scanner) wordBegins() bool {
	before, _ := utf8.DecodeLastRuneInString(s.text[:s.pos])
	return s.pos == s.begin || isSpace(before)
}

// character reads one character of an unquoted literal.
func (s *scanner) character() (string, error) {
	if s.text[s.pos] == '\\' {
		return s.escape()
	}
	_, size := utf8.DecodeRuneInString(s.rest())
	s.pos += size
	return s.text[s.pos-size : s.pos], nil
}

// quoted reads a quoted literal (rule QuotedString).
func (s *scanner) quoted() (string, error) {
	open := s.pos
	s.pos++
	var text strings.Builder
	for s.pos < len(s.text) {
		if s.take(`"`) {
			return text.String(), nil
		}
		char, err := s.quotedCharacter()
		if err != nil {
			return "", err
		}
		text.WriteString(char)
	}
	return "", s.fail(open, `a quote that is never closed`, `a second "`, `write \" for a quote within a value`)
}

// trim removes the white space around a literal, as JavaScript's trim does in
// Kibana: of any kind, escaped or not.
func trim(p Pattern) Pattern {
	last := len(p) - 1
	p[0] = strings.TrimLeftFunc(p[0], isTrimmed)
	p[last] = strings.TrimRightFunc(p[last], isTrimmed)
	return p
}

func isTrimmed(r rune) bool {
	const nextLine, byteOrderMark = '\u0085', '\uFEFF'
	return unicode.IsSpace(r) && r != nextLine || r == byteOrderMark
}

// isSpace is the rule Space: the characters that separate words.
func isSpace(r rune) bool {
	const noBreak = '\u00A0'
	return r == ' ' || r == '\t' || r == '\r' || r == '\n' || r == noBreak
}

// spaceAt returns the size of the space at the start of text, 0 if none exists.
func spaceAt(text string) int {
	if r, size := utf8.DecodeRuneInString(text); isSpace(r) {
		return size
	}
	return 0
}

// keywordAt reports whether text begins with the keyword, in any case, followed by
// space: without space it is an ordinary word.
func keywordAt(text, word string) bool {
	return hasFold(text, word) && spaceAt(text[len(word):]) > 0
}

// hasFold is strings.HasPrefix without regard to case.
func hasFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}

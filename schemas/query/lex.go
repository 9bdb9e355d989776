package query

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// special has the characters that an unquoted literal must escape.
const special = `\():<>"*{}`

// scanner reads the words of the language. What a word is depends on where it
// stands ("or" begins a value, but joins two), so the parser asks for what may
// come next instead of being handed tokens.
type scanner struct {
	text  string
	pos   int
	begin int // of the unquoted literal being read
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

// joined takes "and" or "or" between two operands. It needs space on both
// sides: `(a)or(b)` is an error in Kibana too.
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

// negated takes a "not" before an operand.
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

// bareEnds is where the lookaheads of the rule UnquotedCharacter stop. Kibana
// stops at "not" within a word too, so that `cannot connect` is an error there;
// here it is a value.
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

// trim takes away the white space around a literal, as JavaScript's trim does
// in Kibana: of any kind, escaped or not.
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

// isSpace is the rule Space: what separates words.
func isSpace(r rune) bool {
	const noBreak = '\u00A0'
	return r == ' ' || r == '\t' || r == '\r' || r == '\n' || r == noBreak
}

// spaceAt is the size of the space at the head of text, 0 if there is none.
func spaceAt(text string) int {
	if r, size := utf8.DecodeRuneInString(text); isSpace(r) {
		return size
	}
	return 0
}

// keywordAt reports whether text begins with the keyword, in any case, and
// space after it: without one it is a word like any other.
func keywordAt(text, word string) bool {
	return hasFold(text, word) && spaceAt(text[len(word):]) > 0
}

// hasFold is strings.HasPrefix in any case.
func hasFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}

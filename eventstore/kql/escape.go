package kql

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const escapes = `one of \\ \( \) \: \< \> \" \* \{ \} \t \r \n \uXXXX \and \or \not`

// escape reads an escape in an unquoted literal: white space, a special character,
// a code unit or a keyword. It tries them in Kibana's order with one exception:
// `\not` as its own word. Kibana writes it to escape the keyword, but reads it
// as a line break and "ot".
func (s *scanner) escape() (string, error) {
	if s.wordBegins() && s.escapesNot() {
		return s.escaped(len("not")), nil
	}
	if text, ok, err := s.commonEscape(); ok || err != nil {
		return text, err
	}
	after := s.rest()[1:]
	if after != "" && strings.IndexByte(special, after[0]) >= 0 {
		return s.escaped(1), nil
	}
	for _, word := range []string{"and", "or", "not"} {
		if hasFold(after, word) {
			return s.escaped(len(word)), nil
		}
	}
	_, size := utf8.DecodeRuneInString(after)
	return "", s.fail(s.pos, strconv.Quote(s.rest()[:1+size]), escapes, `a backslash itself is \\`)
}

// quotedCharacter reads one character between quotes. A backslash without an escape
// is literal there, so "C:\dir" needs no escape.
func (s *scanner) quotedCharacter() (string, error) {
	if text, ok, err := s.commonEscape(); ok || err != nil {
		return text, err
	}
	if strings.HasPrefix(s.rest(), `\\`) || strings.HasPrefix(s.rest(), `\"`) {
		return s.escaped(1), nil
	}
	_, size := utf8.DecodeRuneInString(s.rest())
	s.pos += size
	return s.text[s.pos-size : s.pos], nil
}

// escaped reads a backslash and the size bytes after it, which are literal.
func (s *scanner) escaped(size int) string {
	s.pos += 1 + size
	return s.text[s.pos-size : s.pos]
}

func (s *scanner) escapesNot() bool {
	const not = `\not`
	if !hasFold(s.rest(), not) {
		return false
	}
	rest := s.rest()[len(not):]
	return rest == "" || spaceAt(rest) > 0 || strings.IndexByte(special, rest[0]) >= 0
}

// commonEscape reads the escapes that are valid both inside quotes and outside.
func (s *scanner) commonEscape() (text string, ok bool, err error) {
	switch {
	case s.take(`\t`):
		return "\t", true, nil
	case s.take(`\r`):
		return "\r", true, nil
	case s.take(`\n`):
		return "\n", true, nil
	}
	return s.codePoint()
}

// codePoint reads \uXXXX. It is a UTF-16 code unit, so a character beyond the first
// 65,536 needs two.
func (s *scanner) codePoint() (text string, ok bool, err error) {
	start := s.pos
	unit, ok := s.codeUnit()
	if !ok || !utf16.IsSurrogate(unit) {
		return string(unit), ok, nil
	}
	second, _ := s.codeUnit()
	if r := utf16.DecodeRune(unit, second); r != utf8.RuneError {
		return string(r), true, nil
	}
	return "", false, s.fail(start, "half of a surrogate pair", "both halves", "")
}

func (s *scanner) codeUnit() (rune, bool) {
	const size = len(`\uXXXX`)
	rest := s.rest()
	if len(rest) < size || !strings.HasPrefix(rest, `\u`) {
		return 0, false
	}
	unit, err := strconv.ParseUint(rest[2:size], 16, 16)
	if err != nil {
		return 0, false
	}
	s.pos += size
	return rune(unit), true
}

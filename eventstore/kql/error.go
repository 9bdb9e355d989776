package kql

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// SyntaxError is the place at which a text is no valid query.
type SyntaxError struct {
	Query    string
	Offset   int    // in bytes
	Found    string // the text at the place
	Expected string // the text that Parse expected
	Hint     string // a correction, if one is known
}

// Error returns the problem, the query, and a caret under the place.
func (e *SyntaxError) Error() string {
	message := fmt.Sprintf("found %s, expected %s", e.Found, e.Expected)
	return withCaret(message, e.Hint, Place{e.Query, e.Offset})
}

// FieldError reports that the fields cannot answer a query.
type FieldError struct {
	Field   string // as the query has it
	Problem string
	Hint    string   // a correction, if one is known
	Near    []string // similar names
	At      Place
}

// Error returns the problem, the query, and a caret under the place.
func (e *FieldError) Error() string {
	hint := e.Hint
	if len(e.Near) > 0 {
		hint = "did you mean " + alternatives(e.Near) + "?"
	}
	return withCaret(e.Problem, hint, e.At)
}

// alternatives formats names as a query has them.
func alternatives(names []string) string {
	written := make([]string, len(names))
	for i, name := range names {
		written[i] = fieldString(Pattern{name})
	}
	last := len(written) - 1
	if last == 0 {
		return written[0]
	}
	return strings.Join(written[:last], ", ") + " or " + written[last]
}

// withCaret formats a message with the line of the query that has the error.
func withCaret(message, hint string, at Place) string {
	if hint != "" {
		message += "; " + hint
	}
	if at.Query == "" {
		return message
	}
	start := strings.LastIndexByte(at.Query[:at.Offset], '\n') + 1
	line, _, _ := strings.Cut(at.Query[start:], "\n")
	before, after := nearby(strings.Map(visible, at.Query[start:at.Offset]), strings.Map(visible, line[at.Offset-start:]))
	return message + "\n" + before + after + "\n" + strings.Repeat(" ", Width(before)) + "^"
}

const (
	longestLine = 400 // characters up to which a line of a query is shown whole
	context     = 80  // characters on each side of the caret in a longer line
)

// nearby shortens a line at both ends, so that its caret stays visible.
func nearby(before, after string) (string, string) {
	left, right := []rune(before), []rune(after)
	if len(left)+len(right) <= longestLine {
		return before, after
	}
	if len(left) > context {
		before = "…" + string(left[len(left)-context:])
	}
	if len(right) > context {
		after = string(right[:context]) + "…"
	}
	return before, after
}

// visible replaces characters that would move the caret out of its column: control
// characters, and characters that change the direction of text.
func visible(r rune) rune {
	if unicode.In(r, unicode.Cc, unicode.Cf) {
		return ' '
	}
	return r
}

func (s *scanner) fail(offset int, found, expected, hint string) *SyntaxError {
	return &SyntaxError{Query: s.text, Offset: offset, Found: found, Expected: expected, Hint: hint}
}

// found describes the text at the scanner's place.
func (s *scanner) found() string {
	rest := s.rest()
	switch {
	case rest == "":
		return "the end of the query"
	case rest[0] == '"':
		return "a quote"
	}
	word := strings.IndexFunc(rest, func(r rune) bool { return isSpace(r) || strings.ContainsRune(special, r) })
	if word < 0 {
		word = len(rest)
	}
	return strconv.Quote(rest[:max(word, 1)])
}

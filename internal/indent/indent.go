// Package indent prints bodies of messages for people to read, within bounds: whoever
// publishes a message chooses how deep it nests.
package indent

import (
	"bytes"
	"encoding/json"
	"strings"
)

// excerpt is a text up to a number of bytes; what is written beyond is dropped.
type excerpt struct {
	bytes.Buffer
	most int
	full bool // something was dropped
}

func (e *excerpt) write(text []byte) {
	if room := e.most - e.Len(); len(text) > room {
		text, e.full = text[:max(room, 0)], true
	}
	e.Write(text)
}

// deepest is the depth below which lines are not indented further.
const deepest = 50

func (e *excerpt) newLine(depth int) {
	e.write([]byte("\n" + strings.Repeat("  ", min(depth, deepest))))
}

// Text indents JSON and XML, and leaves every value as it is written, and so a byte
// order mark in front, which is part of neither. It ends after most bytes, as the
// indentation of a body can be as long as its square; whole says whether that was all.
func Text(body []byte, most int) (text string, whole bool) {
	const mark = "\ufeff"
	unmarked, marked := bytes.CutPrefix(body, []byte(mark))
	for _, indent := range []func(*excerpt, []byte) bool{indentJSON, indentXML} {
		e := &excerpt{most: most}
		if marked {
			e.write([]byte(mark))
		}
		if indent(e, unmarked) {
			return e.String(), !e.full
		}
	}
	e := &excerpt{most: most}
	e.write(body)
	return e.String(), !e.full
}

// IsJSON says whether a body is a JSON document rather than text that happens to be a
// JSON value.
func IsJSON(body []byte) bool {
	trimmed := bytes.TrimSpace(body)
	return len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid(trimmed)
}

// indentJSON puts each element and each member on a line of its own, as json.Indent
// does. It says no to what is no JSON.
func indentJSON(e *excerpt, body []byte) bool {
	if !IsJSON(body) {
		return false
	}
	depth := 0
	for rest := bytes.TrimSpace(body); len(rest) > 0 && !e.full; {
		n := tokenLength(rest)
		token := rest[:n]
		rest = bytes.TrimLeft(rest[n:], " \t\r\n")
		switch token[0] {
		case '{', '[':
			e.write(token)
			if rest[0] == '}' || rest[0] == ']' {
				e.write(rest[:1])
				rest = bytes.TrimLeft(rest[1:], " \t\r\n")
				continue
			}
			depth++
			e.newLine(depth)
		case '}', ']':
			depth--
			e.newLine(depth)
			e.write(token)
		case ',':
			e.write(token)
			e.newLine(depth)
		case ':':
			e.write([]byte(": "))
		default:
			e.write(token)
		}
	}
	return true
}

// tokenLength is that of the first token of valid JSON.
func tokenLength(text []byte) int {
	switch text[0] {
	case '{', '}', '[', ']', ',', ':':
		return 1
	case '"':
		for i := 1; ; i++ {
			switch text[i] {
			case '\\':
				i++
			case '"':
				return i + 1
			}
		}
	}
	if end := bytes.IndexAny(text, " \t\r\n{}[],:"); end > 0 {
		return end
	}
	return len(text)
}

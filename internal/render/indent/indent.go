// Package indent prints bodies of messages for people to read. Its output is bounded,
// since a publisher chooses how deep a body nests.
package indent

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/watershipmq/watership/schemas/jsonscan"
)

// excerpt is a text of a limited number of bytes; bytes beyond the limit are dropped.
type excerpt struct {
	bytes.Buffer
	limit     int
	truncated bool // something was dropped
}

func (e *excerpt) write(text []byte) {
	if room := e.limit - e.Len(); len(text) > room {
		text, e.truncated = text[:max(room, 0)], true
	}
	e.Write(text)
}

// maxIndent is the depth of the greatest indentation.
const maxIndent = 50

func (e *excerpt) newLine(depth int) {
	e.write([]byte("\n" + strings.Repeat("  ", min(depth, maxIndent))))
}

// Text indents JSON and XML. It changes no value, and no byte order mark, which is part
// of neither. The text ends after limit bytes, since the indentation of a body can be as
// long as its square; complete reports whether that is all of it.
func Text(body []byte, limit int) (text string, complete bool) {
	const mark = "\ufeff"
	unmarked, marked := bytes.CutPrefix(body, []byte(mark))
	for _, indent := range []func(*excerpt, []byte) bool{indentJSON, indentXML} {
		e := &excerpt{limit: limit}
		if marked {
			e.write([]byte(mark))
		}
		if indent(e, unmarked) {
			return e.String(), !e.truncated
		}
	}
	e := &excerpt{limit: limit}
	e.write(body)
	return e.String(), !e.truncated
}

// IsJSON reports whether a body is a JSON object or array. Other JSON values, such as a
// number, are probably text.
func IsJSON(body []byte) bool {
	trimmed := bytes.TrimSpace(body)
	return len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid(trimmed)
}

// indentJSON writes each element and each member on its own line, as json.Indent
// does. It returns false for a body that is not JSON.
func indentJSON(e *excerpt, body []byte) bool {
	if !IsJSON(body) {
		return false
	}
	tokens := jsonscan.New(bytes.TrimSpace(body))
	depth := 0
	var next []byte
	for token := tokens.Token(); token != nil && !e.truncated; token = next {
		next = tokens.Token()
		switch token[0] {
		case '{', '[':
			e.write(token)
			if next[0] == '}' || next[0] == ']' {
				e.write(next)
				next = tokens.Token()
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

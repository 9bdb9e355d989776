package schemas

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"
)

// appendBody keeps the body exactly, as text where it is UTF-8, and makes a
// JSON object of it searchable by field where Elasticsearch can take it.
func (f DocumentFormat) appendBody(o *object, body []byte) {
	switch {
	case len(body) == 0:
		return
	case !utf8.Valid(body):
		appendRaw(o, body)
		return
	case f.NoBodyText:
		o.string("unindexed", string(body))
	default:
		o.string("text", string(body))
	}
	if !f.NoBodyJSON && isSearchableObject(body) {
		o.key("json")
		o.dst = appendOneLine(o.dst, body)
	}
}

// appendOneLine appends valid JSON, in which a line can end only between values:
// a document is one line in a bulk request and in lists.
func appendOneLine(dst, body []byte) []byte {
	for _, c := range bytes.TrimSpace(body) {
		if c == '\n' || c == '\r' {
			c = ' '
		}
		dst = append(dst, c)
	}
	return dst
}

func appendRaw(o *object, body []byte) {
	if len(body) > 0 {
		o.key("raw")
		o.dst = appendBase64(o.dst, body)
	}
}

// isSearchableObject says whether a flattened field takes the body: a JSON
// object, not too deep, no duplicate key, no NUL in a key, no value too long.
func isSearchableObject(body []byte) bool {
	trimmed := bytes.TrimSpace(body)
	if len(trimmed) == 0 || trimmed[0] != '{' || !json.Valid(trimmed) {
		return false
	}
	decoder := json.NewDecoder(bytes.NewReader(trimmed))
	decoder.UseNumber()
	return fits(decoder)
}

// level is one open object or array.
type level struct {
	keys  map[string]bool // nil in an array
	path  int             // bytes of the keys that lead here
	key   int             // bytes of the key whose value is next
	isKey bool            // a key is next
}

func fits(decoder *json.Decoder) bool {
	var open []level
	for {
		token, err := decoder.Token()
		if err != nil {
			return err == io.EOF
		}
		switch t := token.(type) {
		case json.Delim:
			if t == '}' || t == ']' {
				open = open[:len(open)-1]
				continue
			}
			if open = append(open, nextLevel(open, t)); len(open) > flattenedDepth {
				return false
			}
		case string:
			if !open[len(open)-1].take(t) {
				return false
			}
		case json.Number:
			if !open[len(open)-1].takeValue(len(t)) {
				return false
			}
		default:
			open[len(open)-1].isKey = open[len(open)-1].keys != nil
		}
	}
}

func nextLevel(open []level, delim json.Delim) level {
	next := level{}
	if len(open) > 0 {
		parent := &open[len(open)-1]
		next.path = parent.path + parent.key + 1
		parent.isKey = parent.keys != nil
	}
	if delim == '{' {
		next.keys, next.isKey = map[string]bool{}, true
	}
	return next
}

func (l *level) take(text string) bool {
	if !l.isKey {
		return l.takeValue(len(text))
	}
	if l.keys[text] || strings.ContainsRune(text, 0) {
		return false
	}
	l.keys[text] = true
	l.key, l.isKey = len(text), false
	return true
}

func (l *level) takeValue(size int) bool {
	l.isKey = l.keys != nil
	return l.path+l.key+size < flattenedTerm
}

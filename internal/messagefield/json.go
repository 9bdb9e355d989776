package messagefield

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/watershipmq/watership/schemas/jsonscan"
)

// JSONText returns the value at a JSON pointer as text, an object or array as JSON; "" if
// there is none or it is null.
func JSONText(body []byte, pointer string) string {
	value, _ := valueAt(body, pointer)
	return valueText(value)
}

// valueAt returns the value at a JSON pointer (RFC 6901), nil if there is none, and whether
// a name on the way to it occurs more than once; the last one counts.
func valueAt(body []byte, pointer string) (value json.RawMessage, repeated bool) {
	if !json.Valid(body) {
		return nil, false
	}
	value = bytes.TrimSpace(body)
	for token := range strings.SplitSeq(pointer[1:], "/") {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		found := children(value, token)
		if len(found) == 0 {
			return nil, false
		}
		value, repeated = found[len(found)-1], repeated || len(found) > 1
	}
	return value, repeated
}

// children returns the members of an object with a name, or the element of an array.
func children(value json.RawMessage, name string) (found []json.RawMessage) {
	r := jsonscan.New(value)
	switch value[0] {
	case '{':
		r.Object(func(member []byte) {
			if string(member) == name {
				found = append(found, r.Raw())
			}
		})
	case '[':
		i := -1
		r.Array(func() {
			if i++; strconv.Itoa(i) == name {
				found = append(found, r.Raw())
			}
		})
	}
	if r.Err() != nil {
		return nil
	}
	return found
}

// valueText returns a JSON value as text, "" for null.
func valueText(value json.RawMessage) string {
	var text string
	if len(value) > 0 && json.Unmarshal(value, &text) != nil {
		return string(value)
	}
	return text
}

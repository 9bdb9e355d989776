package messagefield

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/watershipmq/watership/schemas/jsonscan"
)

// JSONText returns the value at a JSON pointer as text, an object or array as JSON; "" if
// none exists or it is null.
func JSONText(body []byte, pointer string) string {
	text := validJSON(body)
	if text == nil {
		return ""
	}
	value, _ := valueAt(text, pointer)
	return valueText(value)
}

// validJSON returns a body that is JSON without a byte order mark, nil for any other.
func validJSON(body []byte) []byte {
	if text := bytes.TrimPrefix(body, []byte("\ufeff")); json.Valid(text) {
		return text
	}
	return nil
}

// valueAt returns the value at a JSON pointer (RFC 6901) in valid JSON, nil if none exists,
// and whether a name on the way to it occurs more than once; the last one counts.
func valueAt(body []byte, pointer string) (value json.RawMessage, repeated bool) {
	value = bytes.TrimSpace(body)
	for token := range strings.SplitSeq(pointer[1:], "/") {
		if strings.Contains(token, "~") {
			token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		}
		found, times := child(value, token)
		if found == nil {
			return nil, false
		}
		value, repeated = found, repeated || times > 1
	}
	return value, repeated
}

// child returns the last member of an object with a name, or the element of an array, and how
// many there are.
func child(value json.RawMessage, name string) (found json.RawMessage, times int) {
	r := jsonscan.New(value)
	switch value[0] {
	case '{':
		r.Object(func(member []byte) {
			if string(member) == name {
				found, times = r.Raw(), times+1
			}
		})
	case '[':
		i := -1
		r.Array(func() {
			if i++; strconv.Itoa(i) == name {
				found, times = r.Raw(), times+1
			}
		})
	}
	if r.Err() != nil {
		return nil, 0
	}
	return found, times
}

// valueText returns a JSON value as text, "" for null.
func valueText(value json.RawMessage) string {
	var text string
	if len(value) > 0 && json.Unmarshal(value, &text) != nil {
		return string(value)
	}
	return text
}

package flattened

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzAccepts: a body is accepted exactly if encoding/json reads an object in it that
// has no duplicate key, no NUL in a key and not too many levels.
func FuzzAccepts(f *testing.F) {
	for _, body := range []string{
		"", "text", `{"a":1}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"\u0000":1}`, "{\n\"a\" :\r[1, -0.5e+3,null]}\t", "\xff", "\u2028é",
		`{"\ud800":"\udfff"}`, `{"":{".":[[{}],true]}}`, `{"a":01}`, `{"a":1,}`, `{,}`, `[1]`, `{"a":"\x"}`, `{"a":"` + "\x01" + `"}`, `{"a"`, `{"a":tru}`, `{} {}`, "\x00",
		`{"12345678\"":"1234567\\","é12345678":"12345678"}`,
		wideObject(40, ""), wideObject(40, `"k7":1`), wideObject(40, `"k39":1`), wideObject(40, `"\u006b7":1`), wideObject(40, `"in":`+wideObject(40, `"k1":{}`)),
		`{"a":{"a":1,"b":{"a":1}},"b":1}`, `{"a":{"b":1},"a":1}`, `{"\u0061":1,"a":2}`, `{"\u0061":1,"\u0061":2}`, `{"a":{"b":1,"c":1,"b":1}}`,
		`{"!":1,"b":{"a":1},"a":2}`, `{"a":1,"b":{"!":1,"a":2}}`, `{"!":1,"a":2}`, // ! and a have the same mark
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if utf8.Valid(body) && len(body) <= longestNumber && Accepts(body, 5000) != flattens(body) {
			t.Errorf("%q: accepted %v", body, !flattens(body))
		}
	})
}

// wideObject returns a JSON object with the keys k0, k1 and so on, and a last
// member.
func wideObject(keys int, last string) string {
	var members []string
	for key := range keys {
		members = append(members, fmt.Sprintf(`"k%d":1`, key))
	}
	if last != "" {
		members = append(members, last)
	}
	return "{" + strings.Join(members, ",") + "}"
}

// flattens is Accepts for bodies without long keys, values and numbers.
func flattens(body []byte) bool {
	var object map[string]any
	if !json.Valid(body) || json.Unmarshal(body, &object) != nil || object == nil || len(body) > longestNumber {
		return false
	}
	return !duplicateKey(body) && depth(object) <= MaxDepth && !nulKey(object)
}

func depth(value any) int {
	deepest := -1
	switch v := value.(type) {
	case map[string]any:
		deepest = 0
		for _, child := range v {
			deepest = max(deepest, depth(child))
		}
	case []any:
		deepest = 0
		for _, child := range v {
			deepest = max(deepest, depth(child))
		}
	}
	return deepest + 1
}

func nulKey(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			if bytes.IndexByte([]byte(key), 0) >= 0 || nulKey(child) {
				return true
			}
		}
	case []any:
		for _, child := range v {
			if nulKey(child) {
				return true
			}
		}
	}
	return false
}

func duplicateKey(source []byte) bool {
	type level struct {
		keys  map[string]bool
		isKey bool
	}
	var open []level
	for decoder := json.NewDecoder(bytes.NewReader(source)); ; {
		token, err := decoder.Token()
		if err != nil {
			return false
		}
		switch token {
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
			continue
		}
		if len(open) > 0 && open[len(open)-1].keys != nil {
			top := &open[len(open)-1]
			if top.isKey {
				if top.keys[token.(string)] {
					return true
				}
				top.keys[token.(string)], top.isKey = true, false
				continue
			}
			top.isKey = true
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{map[string]bool{}, true})
		case json.Delim('['):
			open = append(open, level{})
		}
	}
}

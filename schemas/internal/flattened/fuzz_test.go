package flattened

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/schemas/internal/jsonappend"
)

// FuzzAppend: of a body is appended what encoding/json reads in it, but for members with a NUL
// in their key, and levels that are too deep. All of it is appended exactly if nothing is left
// out, and it is accepted as a whole.
func FuzzAppend(f *testing.F) {
	for _, body := range []string{
		"", "text", `{"a":1}`, `{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, `{"\u0000":1}`, "{\n\"a\" :\r[1, -0.5e+3,null]}\t", "\xff", "\u2028é",
		`{"\ud800":"\udfff"}`, `{"":{".":[[{}],true]}}`, `{"a":01}`, `{"a":1,}`, `{,}`, `[1]`, `{"a":"\x"}`, `{"a":"` + "\x01" + `"}`, `{"a"`, `{"a":tru}`, `{} {}`, "\x00",
		`{"12345678\"":"1234567\\","é12345678":"12345678"}`,
		wideObject(40, ""), wideObject(40, `"k7":1`), wideObject(40, `"k39":1`), wideObject(40, `"\u006b7":1`), wideObject(40, `"in":`+wideObject(40, `"k1":{}`)),
		`{"a":{"a":1,"b":{"a":1}},"b":1}`, `{"a":{"b":1},"a":1}`, `{"\u0061":1,"a":2}`, `{"\u0061":1,"\u0061":2}`, `{"a":{"b":1,"c":1,"b":1}}`,
		`{"!":1,"b":{"a":1},"a":2}`, `{"a":1,"b":{"!":1,"a":2}}`, `{"!":1,"a":2}`, // ! and a have the same mark
		`[[1,[{"a":1,"a":{"\u0000":2}}]],{"b":[]}, "x"]`, strings.Repeat("[", 30) + `{"a":` + strings.Repeat("]", 30), `{"a":` + strings.Repeat(`[{"b":`, 15) + "1" + strings.Repeat("}]", 15) + "}",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if !utf8.Valid(body) || len(body) > longestNumber {
			return
		}
		got, ok := Append(nil, body, 5000)
		if whole := ok && bytes.Equal(got, jsonappend.OneLine(nil, body)); flattens(body) && !whole {
			t.Errorf("%q: %q is appended", body, got)
		}
		want := elementsOf(decode(body))
		if ok != (want != nil) {
			t.Fatalf("%q: appended %v, want %v", body, ok, want)
		}
		if !ok {
			return
		}
		for _, element := range elementsOf(decode(got)) {
			encoded, err := json.Marshal(element)
			if err != nil || !flattens(encoded) {
				t.Errorf("%q: %s is appended, %v", body, encoded, err)
			}
		}
		if duplicateKey(got) || !cmp.Equal(elementsOf(decode(got)), want) {
			t.Errorf("%q: %q is appended, want %v", body, got, want)
		}
	})
}

// decode returns the value of JSON, nil if it is none.
func decode(source []byte) (value any) {
	if !json.Valid(source) {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(source))
	decoder.UseNumber()
	_ = decoder.Decode(&value)
	return value
}

// elementsOf returns the objects that a flattened field gets for a value, without what it refuses.
func elementsOf(value any) (objects []any) {
	var others []any
	var add func(any)
	add = func(value any) {
		switch v := value.(type) {
		case map[string]any:
			objects = append(objects, accepted(v, 1))
		case []any:
			for _, element := range v {
				add(element)
			}
		default:
			others = append(others, v)
		}
	}
	switch value.(type) {
	case map[string]any, []any:
		add(value)
	}
	if len(others) > 0 {
		objects = append(objects, map[string]any{"": others})
	}
	return objects
}

// accepted returns a value without members that a flattened field refuses.
func accepted(value any, depth int) any {
	tooDeep := func(value any) bool {
		switch value.(type) {
		case map[string]any, []any:
			return depth == MaxDepth
		}
		return false
	}
	switch v := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for key, member := range v {
			if strings.IndexByte(key, 0) < 0 && !tooDeep(member) {
				kept[key] = accepted(member, depth+1)
			}
		}
		return kept
	case []any:
		kept := []any{}
		for _, element := range v {
			if !tooDeep(element) {
				kept = append(kept, accepted(element, depth+1))
			}
		}
		return kept
	}
	return value
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

// flattens reports whether a flattened field accepts a body without long keys, values and numbers.
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

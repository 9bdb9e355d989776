// Package jsondiff compares values of JSON: which members and elements differ.
package jsondiff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Difference is a place at which two values differ.
type Difference struct {
	Path   string          `json:"path"`             // as in jq, such as .items[0].price; "." is the whole value
	Before json.RawMessage `json:"before,omitempty"` // nil: it did not exist
	After  json.RawMessage `json:"after,omitempty"`
}

// String returns the difference in one line.
func (d Difference) String() string {
	switch {
	case d.Before == nil:
		return fmt.Sprintf("%s: added %s", d.Path, d.After)
	case d.After == nil:
		return fmt.Sprintf("%s: removed %s", d.Path, d.Before)
	}
	return fmt.Sprintf("%s: %s → %s", d.Path, d.Before, d.After)
}

// Decode parses a value of JSON and keeps its numbers as they are.
func Decode(text []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, fmt.Errorf("expected one value of JSON")
	}
	return value, nil
}

// Compare returns the differences between two values of Decode in the order of their paths,
// at most limit of them, without those under an ignored path.
func Compare(before, after any, ignored []Path, limit int) []Difference {
	c := comparison{ignored: ignored, limit: limit}
	c.compare(nil, before, after)
	return c.found
}

type comparison struct {
	ignored []Path
	limit   int
	found   []Difference
}

// absent is the value of a member that an object does not have.
type absent struct{}

func (c *comparison) compare(at Path, before, after any) {
	if len(c.found) >= c.limit || slices.ContainsFunc(c.ignored, func(p Path) bool { return p.matches(at) }) {
		return
	}
	switch b := before.(type) {
	case map[string]any:
		if a, is := after.(map[string]any); is {
			c.objects(at, b, a)
			return
		}
	case []any:
		if a, is := after.([]any); is {
			c.lists(at, b, a)
			return
		}
	}
	if !equal(before, after) {
		c.found = append(c.found, Difference{at.String(), text(before), text(after)})
	}
}

func (c *comparison) objects(at Path, before, after map[string]any) {
	names := slices.Collect(maps.Keys(before))
	for name := range after {
		if _, has := before[name]; !has {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	member := func(object map[string]any, name string) any {
		if value, has := object[name]; has {
			return value
		}
		return absent{}
	}
	for _, name := range names {
		c.compare(append(at[:len(at):len(at)], segment{name: name}), member(before, name), member(after, name))
	}
}

func (c *comparison) lists(at Path, before, after []any) {
	element := func(list []any, i int) any {
		if i < len(list) {
			return list[i]
		}
		return absent{}
	}
	for i := range max(len(before), len(after)) {
		c.compare(append(at[:len(at):len(at)], segment{isIndex: true, index: i}), element(before, i), element(after, i))
	}
}

// equal compares values that are not both objects or both lists.
func equal(a, b any) bool {
	x, isNumber := a.(json.Number)
	y, areNumbers := b.(json.Number)
	if isNumber && areNumbers {
		return x == y || equalNumbers(x, y)
	}
	switch a.(type) {
	case map[string]any, []any:
		return false
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

// equalNumbers reports whether 1.0 and 1e0 are the same number.
func equalNumbers(x, y json.Number) bool {
	if strings.ContainsAny(string(x+y), ".eE") {
		a, err := x.Float64()
		b, other := y.Float64()
		return err == nil && other == nil && a == b
	}
	return false // whole numbers have one text, but for -0
}

func text(value any) json.RawMessage {
	if value == (absent{}) {
		return nil
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return json.RawMessage(strconv.Quote(err.Error()))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

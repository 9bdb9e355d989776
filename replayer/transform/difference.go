package transform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Difference returns the program that makes one message of another, both as JSON returns them;
// "" if they are equal. The program has only the members that differ, so that a program sent for
// an edited message leaves all else as it is. routed reports whether the exchange or the routing
// key differs.
func Difference(before, after []byte) (program string, routed bool, err error) {
	var was, is map[string]json.RawMessage
	if err := json.Unmarshal(before, &was); err != nil {
		return "", false, err
	}
	if err := json.Unmarshal(after, &is); err != nil {
		return "", false, fmt.Errorf("the edited message is no JSON object: %w", err)
	}
	changed := map[string]json.RawMessage{}
	for name, value := range is {
		if !sameJSON(was[name], value) {
			changed[name] = value
		}
	}
	var removed []string
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if _, has := is[name]; !has {
			removed = append(removed, "."+name)
		}
	}
	program = "."
	if len(removed) > 0 {
		program = "del(" + strings.Join(removed, ", ") + ")"
	}
	if len(changed) > 0 {
		text, err := json.Marshal(changed)
		if err != nil {
			return "", false, err
		}
		program += " + " + string(text)
	}
	if program == "." {
		return "", false, nil
	}
	_, exchange := changed["exchange"]
	_, key := changed["routing_key"]
	return program, exchange || key, nil
}

// sameJSON compares two values, however programs write them: with other white space and escapes,
// and members in another order.
func sameJSON(a, b json.RawMessage) bool {
	x, errX := decoded(a)
	y, errY := decoded(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// decoded returns a value with its numbers as they are written.
func decoded(text json.RawMessage) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

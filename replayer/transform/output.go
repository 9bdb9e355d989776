package transform

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/itchyny/gojq"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/replayer/edit"
	"github.com/watershipmq/watership/schemas"
)

// output returns the message that an output of a program describes. in is the input of the
// program: its members that the output repeats stay as they are in the message.
func output(e schemas.Envelope, in map[string]any, out any) (schemas.Envelope, error) {
	members, is := out.(map[string]any)
	if !is {
		return e, errorf("its output is %s, expected an object with body, headers, properties, exchange and routing_key", kindOf(out))
	}
	if budget := maxOutput + 2*len(e.Body); !fits(members, &budget, maxDepth) {
		return e, errorf("its output is larger than %d MiB, or nested more than %d deep", maxOutput>>20, maxDepth)
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains([]string{bodyJSON, bodyText, bodyBase64, "headers", "properties", "exchange", "routing_key"}, name) {
			return e, errorf("its output has the member %q: expected body, headers, properties, exchange and routing_key", name)
		}
	}
	changed := e
	for _, set := range []func(*schemas.Envelope, map[string]any, map[string]any) error{setRoute, setHeaders, setProperties, setBody} {
		if err := set(&changed, in, members); err != nil {
			return e, err
		}
	}
	return changed, nil
}

const maxShortString = 255 // bytes (AMQP 0-9-1 §4.2.5.3)

func setRoute(e *schemas.Envelope, _, out map[string]any) error {
	for _, member := range []struct {
		name  string
		field *string
	}{{"exchange", &e.Exchange}, {"routing_key", &e.RoutingKey}} {
		text, is := out[member.name].(string)
		if !is {
			return errorf("its output has no text %s", member.name)
		}
		if len(text) > maxShortString {
			return errorf("%s has %d bytes: expected at most %d", member.name, len(text), maxShortString)
		}
		*member.field = text
	}
	return nil
}

// setBody sets the body if the output has another one than the input.
func setBody(e *schemas.Envelope, in, out map[string]any) error {
	member := ""
	for _, name := range []string{bodyJSON, bodyText, bodyBase64} {
		if _, has := out[name]; has && member != "" {
			return errorf("its output has %s and %s: expected one of them", member, name)
		} else if has {
			member = name
		}
	}
	if member == "" {
		return errorf("its output has no body")
	}
	value := out[member]
	if before, same := in[member]; same && equal(before, value) {
		return nil
	}
	text, isText := value.(string)
	var err error
	switch {
	case member == bodyJSON:
		e.Body, err = gojq.Marshal(value)
	case !isText:
		return errorf("%s is %s, expected a text", member, kindOf(value))
	case member == bodyText:
		e.Body = []byte(text)
	default:
		e.Body, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil {
		return errorf("%s: %v", member, err)
	}
	return nil
}

// setHeaders sets the headers that differ from the input.
func setHeaders(e *schemas.Envelope, in, out map[string]any) error {
	after, is := out["headers"].(map[string]any)
	if !is {
		return errorf("its output has no object headers")
	}
	before := in["headers"].(map[string]any)
	changed := changedMembers(before, after)
	if len(changed) == 0 {
		return nil
	}
	if err := (edit.Changes{Remove: changed}).Check(); err != nil {
		return errorf("%v", err)
	}
	headers := maps.Clone(e.Headers)
	if headers == nil {
		headers = amqp.Table{}
	}
	for _, name := range changed {
		value, present := after[name]
		if !present {
			delete(headers, name)
			continue
		}
		header, err := headerOf(value, headers[name])
		if err != nil {
			return errorf("header %q: %v", name, err)
		}
		headers[name] = header
	}
	if err := headers.Validate(); err != nil {
		return errorf("the headers: %v", err)
	}
	e.Headers = headers
	return nil
}

// changedMembers returns the names of the members that two objects do not share, sorted.
func changedMembers(before, after map[string]any) (names []string) {
	for name, value := range after {
		if former, had := before[name]; !had || !equal(former, value) {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, has := after[name]; !has {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// headerOf returns the value of an AMQP table for a value of a program. The parts that are
// the same as in the former value keep its types, and a text instead of a time or of bytes
// becomes one, too.
func headerOf(value, former any) (any, error) {
	if former != nil && equal(headerValue(former), value) {
		return former, nil
	}
	switch v := value.(type) {
	case string:
		return textLike(v, former), nil
	case map[string]any:
		return tableOf(v, former)
	case []any:
		return listOf(v, former)
	case nil, bool:
		return v, nil
	}
	return numberOf(value, former)
}

func textLike(text string, former any) any {
	switch former.(type) {
	case []byte:
		return []byte(text)
	case time.Time:
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return t
		}
	}
	return text
}

func tableOf(object map[string]any, former any) (any, error) {
	before, _ := former.(amqp.Table)
	table := amqp.Table{}
	for name, value := range object {
		if len(name) > maxShortString {
			return nil, fmt.Errorf("the name of a member has %d bytes: expected at most %d", len(name), maxShortString)
		}
		inner, err := headerOf(value, before[name])
		if err != nil {
			return nil, err
		}
		table[name] = inner
	}
	return table, nil
}

func listOf(values []any, former any) (any, error) {
	before, _ := former.([]any)
	list := make([]any, len(values))
	for i, value := range values {
		var was any
		if i < len(before) {
			was = before[i]
		}
		inner, err := headerOf(value, was)
		if err != nil {
			return nil, err
		}
		list[i] = inner
	}
	return list, nil
}

// numberOf returns a whole number as an integer, unless the former value was a float.
func numberOf(value, former any) (any, error) {
	if number, is := value.(json.Number); is {
		if whole, err := number.Int64(); err == nil {
			value = int(whole)
		} else if value, err = number.Float64(); err != nil {
			return nil, fmt.Errorf("the number %s is too large", number)
		}
	}
	switch former.(type) {
	case float32, float64:
		if number, is := gojq.ToFloat64(value); is {
			value = number
		}
	default:
		if v, is := value.(float64); is && v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			value = int(v)
		}
	}
	switch v := value.(type) {
	case int:
		return int64(v), nil
	case float64:
		if finite(v) == nil {
			return nil, fmt.Errorf("the number %v cannot be sent", v)
		}
		return v, nil
	case *big.Int:
		return nil, fmt.Errorf("the number %s is too large", v)
	}
	return nil, fmt.Errorf("a value %s cannot be sent", kindOf(value))
}

// setProperties sets the properties that differ from the input.
func setProperties(e *schemas.Envelope, in, out map[string]any) error {
	after, is := out["properties"].(map[string]any)
	if !is {
		return errorf("its output has no object properties")
	}
	var changes edit.Changes
	for _, name := range changedMembers(in["properties"].(map[string]any), after) {
		text, err := propertyText(after[name])
		switch {
		case err != nil:
			return errorf("property %s: %v", name, err)
		case text == "":
			changes.RemoveProperties = append(changes.RemoveProperties, name)
		default:
			changes.SetProperties = append(changes.SetProperties, name+"="+text)
		}
	}
	if err := changes.Check(); err != nil {
		return errorf("%v", err)
	}
	e.Properties = changes.Apply(schemas.Envelope{Properties: e.Properties}).Properties
	return nil
}

func propertyText(value any) (string, error) {
	switch v := value.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case int, float64, json.Number:
		return fmt.Sprint(v), nil
	}
	return "", fmt.Errorf("it is %s, expected a text or a number", kindOf(value))
}

func equal(a, b any) bool { return gojq.Compare(a, b) == 0 }

// maxDepth is the depth to which encoding/json reads.
const maxDepth = 10_000

// fits reports whether a value is within a budget of bytes of JSON, and at most so deep. A
// value may have the same part many times, so that its JSON is far larger than its memory.
func fits(value any, budget *int, depth int) bool {
	const perValue = 2 // a separator, and at least a digit
	if *budget -= perValue; *budget < 0 || depth < 0 {
		return false
	}
	switch v := value.(type) {
	case string:
		*budget -= len(v)
	case *big.Int:
		*budget -= v.BitLen() / 4
	case []any:
		for _, element := range v {
			if !fits(element, budget, depth-1) {
				return false
			}
		}
	case map[string]any:
		for name, element := range v {
			if *budget -= len(name); !fits(element, budget, depth-1) {
				return false
			}
		}
	}
	return *budget >= 0
}

func kindOf(value any) string {
	if value == nil {
		return "null"
	}
	return "of the type " + gojq.TypeOf(value)
}

package transfer

import (
	"encoding/json"
	"fmt"
	"math"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/tablejson"
)

// Headers returns the headers of a message to publish: the members of an object of JSON,
// whose whole numbers become integers, and the members of a table of package tablejson,
// which have AMQP types.
func Headers(object map[string]any, typed []map[string]json.RawMessage) (amqp.Table, error) {
	headers := tableOf(object)
	for _, member := range typed {
		text, err := json.Marshal([]any{member})
		if err != nil {
			return nil, err
		}
		header, err := tablejson.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", bounded(member["key"]), err)
		}
		for name, value := range header {
			if _, twice := headers[name]; twice {
				return nil, fmt.Errorf("header %q is given twice", name)
			}
			headers[name] = value
		}
	}
	return headers, checkNames(headers)
}

// tableOf converts an object of JSON to an AMQP table.
func tableOf(object map[string]any) amqp.Table {
	table := amqp.Table{}
	for name, value := range object {
		table[name] = valueOf(value)
	}
	return table
}

func valueOf(value any) any {
	switch v := value.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	case map[string]any:
		return tableOf(v)
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = valueOf(element)
		}
		return list
	}
	return value
}

// maxName is the length of a short string (AMQP 0-9-1 §4.2.5.3).
const maxName = 255 // bytes

// checkNames refuses names that the client cannot write, in nested tables, too.
func checkNames(value any) error {
	switch v := value.(type) {
	case amqp.Table:
		for name, inner := range v {
			if len(name) > maxName {
				return fmt.Errorf("%.100q…: the name is longer than %d bytes", name, maxName)
			}
			if err := checkNames(inner); err != nil {
				return err
			}
		}
	case []any:
		for _, inner := range v {
			if err := checkNames(inner); err != nil {
				return err
			}
		}
	}
	return nil
}

// bounded returns the beginning of a text for a sentence.
func bounded(text []byte) []byte { return text[:min(len(text), 100)] }

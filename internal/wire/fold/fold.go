// Package fold gives the values of AMQP tables one type for all types in which a client
// may publish them again.
package fold

import (
	"math"
	"reflect"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Table returns a copy of a table with folded values.
func Table(table amqp.Table) amqp.Table {
	folded := make(amqp.Table, len(table))
	for name, value := range table {
		folded[name] = Value(value)
	}
	return folded
}

// Value folds a value: every integer is an int64, bytes are a string, a float32 is a
// float64, and a float with an integral value is an int64, since JavaScript has one type
// for both.
func Value(value any) any {
	switch v := value.(type) {
	case []byte:
		return string(v)
	case float32:
		return float(float64(v))
	case float64:
		return float(v)
	case int: // the client writes it as a 32-bit integer
		return int64(int32(v))
	case int8, int16, int32, int64:
		return reflect.ValueOf(v).Int()
	case uint8, uint16, uint32:
		return int64(reflect.ValueOf(v).Uint())
	case amqp.Table:
		return Table(v)
	case []any:
		folded := make([]any, len(v))
		for i, element := range v {
			folded[i] = Value(element)
		}
		return folded
	}
	return value
}

func float(v float64) any {
	const exact = 1 << 53 // beyond it not every integer is a float64
	if v == math.Trunc(v) && math.Abs(v) <= exact {
		return int64(v)
	}
	return v
}

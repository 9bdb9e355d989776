// Package amqpvalue formats the values of AMQP headers for people to read.
package amqpvalue

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Text formats a value. It is empty for tables and arrays, which have values themselves.
func Text(value any) string {
	switch v := value.(type) {
	case nil, amqp.Table, []any:
		return ""
	case []byte:
		return hex.EncodeToString(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case amqp.Decimal:
		return decimal(v)
	}
	return fmt.Sprint(value)
}

// decimal formats a decimal, with the point where its scale says.
func decimal(d amqp.Decimal) string {
	digits := strconv.FormatInt(int64(d.Value), 10)
	if d.Scale == 0 {
		return digits
	}
	sign := ""
	if d.Value < 0 {
		sign, digits = "-", digits[1:]
	}
	digits = strings.Repeat("0", max(0, int(d.Scale)+1-len(digits))) + digits
	point := len(digits) - int(d.Scale)
	return sign + digits[:point] + "." + digits[point:]
}

// Type returns the name of a value's type.
func Type(value any) string {
	switch v := value.(type) {
	case nil:
		return "void"
	case []byte:
		return "bytes, in hex"
	case []any:
		if len(v) == 0 {
			return "empty array"
		}
		return "array"
	case amqp.Table:
		if len(v) == 0 {
			return "empty table"
		}
		return "table"
	case time.Time:
		return "timestamp"
	case amqp.Decimal:
		return "decimal"
	}
	return fmt.Sprintf("%T", value)
}

package schemas

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// member is one member of a table, or one value of an array, as AppendTable writes it.
type member struct {
	Key   *string `json:"key"`
	Key64 []byte  `json:"key64"`

	Void        bool      `json:"void"`
	Bool        *bool     `json:"bool"`
	String      *string   `json:"string"`
	String64    *[]byte   `json:"string64"`
	Bytes       *[]byte   `json:"bytes"`
	Table       *[]member `json:"table"`
	Array       *[]member `json:"array"`
	Time        *int64    `json:"time"`
	Int8        *int8     `json:"int8"`
	Uint8       *uint8    `json:"uint8"`
	Int16       *int16    `json:"int16"`
	Uint16      *uint16   `json:"uint16"`
	Int32       *int32    `json:"int32"`
	Uint32      *uint32   `json:"uint32"`
	Int64       *int64    `json:"int64"`
	Float32     *float32  `json:"float32"`
	Float64     *float64  `json:"float64"`
	Float32Bits *uint32   `json:"float32_bits"`
	Float64Bits *uint64   `json:"float64_bits"`
	Decimal     *struct {
		Scale uint8 `json:"scale"`
		Value int32 `json:"value"`
	} `json:"decimal"`
}

// ParseTable reads what AppendTable wrote. An empty list is a nil table, as an
// empty table is not sent at all.
func ParseTable(data []byte) (amqp.Table, error) {
	var members []member
	if err := json.Unmarshal(data, &members); err != nil {
		return nil, fmt.Errorf("parsing a header table: %w", err)
	}
	if len(members) == 0 {
		return nil, nil
	}
	return tableOf(members)
}

func tableOf(members []member) (amqp.Table, error) {
	table := make(amqp.Table, len(members))
	for _, m := range members {
		key := string(m.Key64)
		if m.Key != nil {
			key = *m.Key
		}
		value, err := m.value()
		if err != nil {
			return nil, fmt.Errorf("header %q: %w", key, err)
		}
		table[key] = value
	}
	return table, nil
}

func arrayOf(members []member) ([]any, error) {
	values := make([]any, len(members))
	for i, m := range members {
		value, err := m.value()
		if err != nil {
			return nil, fmt.Errorf("value %d: %w", i, err)
		}
		values[i] = value
	}
	return values, nil
}

func (m member) value() (any, error) {
	switch {
	case m.Void:
		return nil, nil
	case m.Bool != nil:
		return *m.Bool, nil
	case m.String != nil:
		return *m.String, nil
	case m.String64 != nil:
		return string(*m.String64), nil
	case m.Bytes != nil:
		return *m.Bytes, nil
	case m.Table != nil:
		return tableOf(*m.Table)
	case m.Array != nil:
		return arrayOf(*m.Array)
	case m.Time != nil:
		return time.Unix(*m.Time, 0), nil
	}
	return m.number()
}

func (m member) number() (any, error) {
	switch {
	case m.Int8 != nil:
		return *m.Int8, nil
	case m.Uint8 != nil:
		return *m.Uint8, nil
	case m.Int16 != nil:
		return *m.Int16, nil
	case m.Uint16 != nil:
		return *m.Uint16, nil
	case m.Int32 != nil:
		return *m.Int32, nil
	case m.Uint32 != nil:
		return *m.Uint32, nil
	case m.Int64 != nil:
		return *m.Int64, nil
	case m.Float32 != nil:
		return *m.Float32, nil
	case m.Float64 != nil:
		return *m.Float64, nil
	case m.Float32Bits != nil:
		return math.Float32frombits(*m.Float32Bits), nil
	case m.Float64Bits != nil:
		return math.Float64frombits(*m.Float64Bits), nil
	case m.Decimal != nil:
		return amqp.Decimal{Scale: m.Decimal.Scale, Value: m.Decimal.Value}, nil
	}
	return nil, errors.New("no type that this version knows")
}

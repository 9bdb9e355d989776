package broker

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
)

// tableOf converts a JSON object like the management API of RabbitMQ: whole numbers to
// long, others to double, names in alphabetical order.
func tableOf(object map[string]any) table {
	var t table
	for _, name := range slices.Sorted(maps.Keys(object)) {
		t = t.withField(name, fieldOf(object[name]))
	}
	return t
}

func fieldOf(value any) field {
	switch value := value.(type) {
	case string:
		return field{'S', []byte(value)}
	case bool:
		return field{'t', []byte{bit(0, value)}}
	case json.Number:
		return fieldOfNumber(value)
	case map[string]any:
		return field{'F', tableOf(value)}
	case []any:
		var items []byte
		for _, item := range value {
			f := fieldOf(item)
			items = append(items, table(nil).withField("", f)[1:]...)
		}
		return field{'A', items}
	}
	return field{'V', nil}
}

func fieldOfNumber(number json.Number) field {
	if whole, err := number.Int64(); err == nil {
		return field{'l', binary.BigEndian.AppendUint64(nil, uint64(whole))}
	}
	value, _ := number.Float64()
	return field{'d', binary.BigEndian.AppendUint64(nil, math.Float64bits(value))}
}

// jsonProperties returns the positions of properties by their names in the management
// API.
func jsonProperties() map[string]int {
	return map[string]int{
		"content_type": propContentType, "content_encoding": propContentEncoding, "headers": propHeaders,
		"delivery_mode": propDeliveryMode, "priority": propPriority, "correlation_id": propCorrelationID,
		"reply_to": propReplyTo, "expiration": propExpiration, "message_id": propMessageID,
		"timestamp": propTimestamp, "type": propType, "user_id": propUserID, "app_id": propAppID,
		"cluster_id": propClusterID,
	}
}

// propertiesOf converts a JSON object to properties.
func propertiesOf(object map[string]any) (p properties, err error) {
	places := jsonProperties()
	for name, value := range object {
		place, known := places[name]
		if !known {
			return p, fmt.Errorf("%s is no property", name)
		}
		if p.values[place] = propertyOf(place, fieldOf(value)); p.values[place] == nil {
			return p, fmt.Errorf("property %s cannot be %v", name, value)
		}
	}
	return p, nil
}

// propertyOf returns the encoded value of a property; nil where the field has another
// type.
func propertyOf(place int, f field) []byte {
	switch place {
	case propHeaders:
		if f.kind == 'F' {
			return appendLongstr(nil, string(f.raw))
		}
	case propDeliveryMode, propPriority:
		if n, ok := f.integer(); ok && n >= 0 && n <= math.MaxUint8 {
			return []byte{byte(n)}
		}
	case propTimestamp:
		if n, ok := f.integer(); ok {
			return binary.BigEndian.AppendUint64(nil, uint64(n))
		}
	default:
		if text, ok := f.text(); ok && len(text) <= maxShortstr {
			return appendShortstr(nil, text)
		}
	}
	return nil
}

// json returns the properties as the management API shows them.
func (p properties) json() map[string]any {
	object := map[string]any{}
	for name, place := range jsonProperties() {
		value := p.values[place]
		if value == nil {
			continue
		}
		switch place {
		case propHeaders:
			object[name] = p.headers().json()
		case propDeliveryMode, propPriority:
			object[name] = value[0]
		case propTimestamp:
			object[name] = binary.BigEndian.Uint64(value)
		default:
			object[name] = string(value[1:])
		}
	}
	return object
}

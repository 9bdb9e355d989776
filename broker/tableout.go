package broker

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The functions below append a field to a table, or an item to an array.

func (t table) withText(name, value string) table {
	return appendLongstr(append(appendShortstr(t, name), 'S'), value)
}

func (t table) withLong(name string, value int64) table {
	return binary.BigEndian.AppendUint64(append(appendShortstr(t, name), 'l'), uint64(value))
}

func (t table) withTimestamp(name string, seconds int64) table {
	return binary.BigEndian.AppendUint64(append(appendShortstr(t, name), 'T'), uint64(seconds))
}

func (t table) withBool(name string, value bool) table {
	return append(appendShortstr(t, name), 't', bit(0, value))
}

func (t table) withTable(name string, value table) table {
	return appendLongstr(append(appendShortstr(t, name), 'F'), string(value))
}

// withArray appends an array of encoded items.
func (t table) withArray(name string, items []byte) table {
	return appendLongstr(append(appendShortstr(t, name), 'A'), string(items))
}

func textItem(items []byte, value string) []byte {
	return appendLongstr(append(items, 'S'), value)
}

func tableItem(items []byte, value table) []byte {
	return appendLongstr(append(items, 'F'), string(value))
}

func (t table) withField(name string, f field) table {
	t = append(appendShortstr(t, name), f.kind)
	switch f.kind {
	case 'S', 'x', 'A', 'F':
		return appendLongstr(t, string(f.raw))
	}
	return append(t, f.raw...)
}

// without returns the table without the fields of some names.
func (t table) without(names ...string) table {
	rest := make(table, 0, len(t))
	for name, f := range t.fields() {
		if !slices.Contains(names, name) {
			rest = rest.withField(name, f)
		}
	}
	return rest
}

// canonical returns the same text for tables with the same fields in any order.
func (t table) canonical() string {
	var parts []string
	for name, f := range t.fields() {
		parts = append(parts, string(table(nil).withField(name, f)))
	}
	slices.Sort(parts)
	return strings.Join(parts, "")
}

// typeName returns the name of the type in the texts of RabbitMQ.
func (f field) typeName() string {
	switch f.kind {
	case 'S':
		return "longstr"
	case 'x':
		return "binary"
	case 'I':
		return "signedint"
	case 'i':
		return "unsignedint"
	case 'l':
		return "long"
	case 's':
		return "short"
	case 'u':
		return "unsignedshort"
	case 'b':
		return "byte"
	case 'B':
		return "unsignedbyte"
	case 'T':
		return "timestamp"
	}
	return f.rareTypeName()
}

func (f field) rareTypeName() string {
	switch f.kind {
	case 't':
		return "bool"
	case 'f':
		return "float"
	case 'd':
		return "double"
	case 'D':
		return "decimal"
	case 'A':
		return "array"
	case 'F':
		return "table"
	}
	return "void"
}

// String formats the value as the texts of RabbitMQ do.
func (f field) String() string {
	if whole, fraction, ok := f.number(); ok {
		if f.kind == 'f' || f.kind == 'd' {
			return strconv.FormatFloat(fraction, 'g', -1, 64)
		}
		return strconv.FormatInt(whole, 10)
	}
	if value, ok := f.boolean(); ok {
		return strconv.FormatBool(value)
	}
	if f.kind == 'S' || f.kind == 'x' {
		return string(f.raw)
	}
	return octets(f.raw)
}

// json returns the value as the management API shows it.
func (f field) json() any {
	if whole, fraction, ok := f.number(); ok {
		if f.kind == 'f' || f.kind == 'd' {
			return fraction
		}
		return whole
	}
	switch f.kind {
	case 'S':
		return string(f.raw)
	case 'x':
		return base64.StdEncoding.EncodeToString(f.raw)
	case 't':
		return f.raw[0] != 0
	case 'F':
		return table(f.raw).json()
	case 'A':
		return f.jsonItems()
	case 'D':
		return fmt.Sprint(float64(int32(binary.BigEndian.Uint32(f.raw[1:]))) / math.Pow10(int(f.raw[0])))
	}
	return nil
}

func (f field) jsonItems() []any {
	items := []any{}
	for item := range f.items() {
		items = append(items, item.json())
	}
	return items
}

func (t table) json() map[string]any {
	object := map[string]any{}
	for name, f := range t.fields() {
		object[name] = f.json()
	}
	return object
}

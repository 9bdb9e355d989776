// Package headertext has the headers of a message as the texts that are searched.
package headertext

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/internal/flattened"
	"github.com/watershipmq/watership/schemas/internal/jsonappend"
	"github.com/watershipmq/watership/schemas/tablejson"
)

// Most is the number of header values that are searchable, in the order of the headers'
// names. Indexing one takes a store as long as a value of a body.
const Most = 1000

// Append appends the members of a flattened field. fields are sorted. It reports whether each
// header that is a text is there unchanged, and no other under a name that is not its own.
func Append(o *jsonappend.Object, fields []tablejson.Field) (exactTexts bool) {
	a := appender{Object: o, left: Most, exactTexts: true}
	a.fields(fields, 1, 0)
	return a.exactTexts
}

// appender appends values until left reaches zero.
type appender struct {
	*jsonappend.Object
	left       int
	exactTexts bool
}

func (a *appender) fields(fields []tablejson.Field, depth, path int) {
	var replaced map[string]bool
	for i := range fields {
		name := fields[i].Key
		if !utf8.ValidString(name) {
			a.exactTexts = a.exactTexts && depth > 1
			name = strings.ToValidUTF8(name, "\ufffd")
			if hasKey(fields, name) || replaced[name] {
				continue
			}
			if replaced == nil {
				replaced = map[string]bool{}
			}
			replaced[name] = true
		}
		if strings.IndexByte(name, 0) < 0 {
			a.value(name, fields[i].Value, depth, path+len(name)+1)
		} else {
			a.exactTexts = a.exactTexts && depth > 1
		}
	}
}

func hasKey(fields []tablejson.Field, key string) bool {
	_, found := slices.BinarySearchFunc(fields, key, func(f tablejson.Field, key string) int { return strings.Compare(f.Key, key) })
	return found
}

func (a *appender) value(name string, value any, depth, path int) {
	if a.left <= 0 {
		a.exactTexts = false
		return
	}
	switch v := value.(type) {
	case nil:
	case amqp.Table:
		if depth < flattened.MaxDepth {
			var room [tablejson.Room]tablejson.Field
			nested := a.OpenAny(name)
			a.fields(tablejson.Sorted(room[:], v, nil), depth+1, path)
			a.Close(nested)
		}
	case []any:
		list := texts(v, path)
		list = list[:min(len(list), a.left)]
		if a.left -= len(list); len(list) > 0 {
			a.AnyKey(name)
			a.Dst = appendStrings(a.Dst, list)
		}
	case string:
		a.left--
		exact := depth > 1 || path+len(v) < flattened.MaxTerm && utf8.ValidString(v)
		a.exactTexts = a.exactTexts && exact
		a.text(name, v, path)
	default:
		a.left--
		a.scalar(name, value, path)
	}
}

func (a *appender) text(name, text string, path int) {
	if 3*len(text)+path < flattened.MaxTerm { // the greatest length after conversion to UTF-8
		a.AnyKey(name)
		a.Dst = jsonappend.String(a.Dst, text)
		return
	}
	a.scalar(name, text, path)
}

// scalar appends a value as Of converts it. The types that most headers have need no memory.
func (a *appender) scalar(name string, value any, path int) {
	switch v := value.(type) {
	case bool:
		a.AnyKey(name)
		a.Dst = append(strconv.AppendBool(append(a.Dst, '"'), v), '"')
		return
	case int64:
		a.integer(name, v)
		return
	case int32:
		a.integer(name, int64(v))
		return
	case time.Time:
		a.AnyKey(name)
		a.Dst = append(time.Unix(v.Unix(), 0).UTC().AppendFormat(append(a.Dst, '"'), time.RFC3339), '"')
		return
	}
	if text, ok := Of(value); ok && path+len(text) < flattened.MaxTerm {
		a.AnyKey(name)
		a.Dst = jsonappend.String(a.Dst, text)
	}
}

func (a *appender) integer(name string, value int64) {
	a.AnyKey(name)
	a.Dst = append(strconv.AppendInt(append(a.Dst, '"'), value, 10), '"')
}

func texts(values []any, path int) (list []string) {
	for _, value := range values {
		if text, ok := Of(value); ok && path+len(text) < flattened.MaxTerm {
			list = append(list, text)
		}
	}
	return list
}

func appendStrings(dst []byte, texts []string) []byte {
	dst = append(dst, '[')
	for i, text := range texts {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsonappend.String(dst, text)
	}
	return append(dst, ']')
}

// Of returns a header's value as a user would type it in a search.
func Of(value any) (string, bool) {
	switch v := value.(type) {
	case nil, amqp.Table, []any:
		return "", false
	case string:
		return strings.ToValidUTF8(v, "\ufffd"), true
	case []byte:
		if utf8.Valid(v) {
			return string(v), true
		}
		return base64.StdEncoding.EncodeToString(v), true
	case time.Time:
		return time.Unix(v.Unix(), 0).UTC().Format(time.RFC3339), true
	case amqp.Decimal:
		return decimal(v), true
	case bool:
		return strconv.FormatBool(v), true
	case float32, float64:
		return fmt.Sprint(v), true
	}
	return integer(value), true
}

func decimal(d amqp.Decimal) string {
	return strconv.FormatFloat(float64(d.Value)/math.Pow10(int(d.Scale)), 'f', -1, 64)
}

// Number returns a header's value as a number, which a text may have.
func Number(value any) (float64, bool) {
	text, ok := Of(value)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return number, err == nil && !math.IsNaN(number) && !math.IsInf(number, 0)
}

func integer(value any) string {
	switch v := value.(type) {
	case int64:
		return strconv.FormatInt(v, 10)
	case int32:
		return strconv.FormatInt(int64(v), 10)
	case int: // the client writes it as a 32-bit integer
		return strconv.FormatInt(int64(int32(v)), 10)
	}
	return fmt.Sprint(value)
}

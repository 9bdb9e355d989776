// Package headertext has the headers of a message as the texts that are searched.
package headertext

import (
	"encoding/base64"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas/internal/flattened"
	"github.com/watershipmq/watership/schemas/internal/jsonappend"
)

// Most is the number of header values that are searchable, in the order of the headers'
// names. Indexing one takes a store as long as a value of a body.
const Most = 1000

// Append appends the members of a flattened field. keys are the sorted keys of the table.
func Append(o *jsonappend.Object, table amqp.Table, keys []string) {
	left := Most
	appendFlattened(o, table, keys, 1, 0, &left)
}

// HasTexts reports whether Append writes each header that is a text, unchanged.
func HasTexts(table amqp.Table, keys []string) bool {
	for _, key := range keys {
		text, isText := table[key].(string)
		if !utf8.ValidString(key) || strings.IndexByte(key, 0) >= 0 ||
			isText && (!utf8.ValidString(text) || len(key)+1+len(text) >= flattened.MaxTerm) {
			return false
		}
	}
	return countValues(table) <= Most
}

func countValues(value any) int {
	count := 0
	switch v := value.(type) {
	case amqp.Table:
		for _, member := range v {
			count += countValues(member)
		}
	case []any:
		for _, element := range v {
			count += countValues(element)
		}
	default:
		return 1
	}
	return count
}

// appendFlattened appends values until left reaches zero.
func appendFlattened(o *jsonappend.Object, table amqp.Table, keys []string, depth, path int, left *int) {
	var replaced map[string]bool
	for _, key := range keys {
		name := key
		if !utf8.ValidString(key) {
			name = strings.ToValidUTF8(key, "\ufffd")
			if _, taken := table[name]; taken || replaced[name] {
				continue
			}
			if replaced == nil {
				replaced = map[string]bool{}
			}
			replaced[name] = true
		}
		if strings.IndexByte(name, 0) < 0 {
			appendFlattenedValue(o, name, table[key], depth, path+len(name)+1, left)
		}
	}
}

func appendFlattenedValue(o *jsonappend.Object, name string, value any, depth, path int, left *int) {
	if *left <= 0 {
		return
	}
	switch v := value.(type) {
	case nil:
	case amqp.Table:
		if depth < flattened.MaxDepth {
			nested := o.Open(name)
			appendFlattened(o, v, slices.Sorted(maps.Keys(v)), depth+1, path, left)
			o.Close(nested)
		}
	case []any:
		list := texts(v, path)
		list = list[:min(len(list), *left)]
		if *left -= len(list); len(list) > 0 {
			o.AnyKey(name)
			o.Dst = appendStrings(o.Dst, list)
		}
	case string:
		*left--
		if 3*len(v)+path < flattened.MaxTerm { // the greatest length after conversion to UTF-8
			o.AnyKey(name)
			o.Dst = jsonappend.String(o.Dst, v)
			return
		}
		appendScalar(o, name, value, path)
	default:
		*left--
		appendScalar(o, name, value, path)
	}
}

func appendScalar(o *jsonappend.Object, name string, value any, path int) {
	if text, ok := Of(value); ok && path+len(text) < flattened.MaxTerm {
		o.AnyKey(name)
		o.Dst = jsonappend.String(o.Dst, text)
	}
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

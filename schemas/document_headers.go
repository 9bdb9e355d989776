package schemas

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
)

// mostHeaderValues is the number of header values that are searchable, in the order
// of the headers' names. Indexing one takes a store as long as a value of a body.
const mostHeaderValues = 1000

// appendHeaders appends the searchable fields of the headers: all of them as text,
// and the headers on the lists as labels. keys are the sorted keys of the table.
func (f DocumentFormat) appendHeaders(o *jsonappend.Object, table amqp.Table, keys []string) {
	headers := o.Open("headers")
	left := mostHeaderValues
	appendFlattened(o, table, keys, 1, 0, &left)
	o.Close(headers)
	labels := o.Open("labels")
	for i, name := range f.Labels {
		if text, ok := scalarText(table[name]); ok && !namedBefore(f.Labels, i) {
			o.AnyKey(labelName(name))
			o.Dst = jsonappend.String(o.Dst, shorten(text, flattened.MaxTerm/4))
		}
	}
	o.Close(labels)
	labels = o.Open("numeric_labels")
	for i, name := range f.NumericLabels {
		if number, ok := finiteNumber(table[name]); ok && !namedBefore(f.NumericLabels, i) {
			o.AnyKey(labelName(name))
			o.Dst = strconv.AppendFloat(o.Dst, number, 'g', -1, 64)
		}
	}
	o.Close(labels)
}

// labelName replaces dots, which would make the label an object (ECS labels).
func labelName(header string) string { return strings.ReplaceAll(header, ".", "_") }

// LabelFields returns the full names of the labels that documents of this format
// have, such as labels.tenant.
func (f DocumentFormat) LabelFields() []string {
	var names []string
	for _, header := range f.Labels {
		names = append(names, "labels."+labelName(header))
	}
	for _, header := range f.NumericLabels {
		names = append(names, "numeric_labels."+labelName(header))
	}
	return names
}

// namedBefore reports whether an earlier header has the same label: a duplicate key
// would make the document invalid.
func namedBefore(headers []string, i int) bool {
	return slices.ContainsFunc(headers[:i], func(other string) bool { return labelName(other) == labelName(headers[i]) })
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
			var room [keysRoom]string
			appendFlattened(o, v, sortedKeys(room[:0], v), depth+1, path, left)
			o.Close(nested)
		}
	case []any:
		texts := scalarTexts(v, path)
		texts = texts[:min(len(texts), *left)]
		if *left -= len(texts); len(texts) > 0 {
			o.AnyKey(name)
			o.Dst = appendStrings(o.Dst, texts)
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
	if text, ok := scalarText(value); ok && path+len(text) < flattened.MaxTerm {
		o.AnyKey(name)
		o.Dst = jsonappend.String(o.Dst, text)
	}
}

func scalarTexts(values []any, path int) []string {
	var texts []string
	for _, value := range values {
		if text, ok := scalarText(value); ok && path+len(text) < flattened.MaxTerm {
			texts = append(texts, text)
		}
	}
	return texts
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

// scalarText returns a header's value as a user would type it in a search.
func scalarText(value any) (string, bool) {
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
		return decimalText(v), true
	case bool:
		return strconv.FormatBool(v), true
	case float32, float64:
		return fmt.Sprint(v), true
	}
	return strconv.FormatInt(integer(value), 10), true
}

func decimalText(d amqp.Decimal) string {
	return strconv.FormatFloat(float64(d.Value)/math.Pow10(int(d.Scale)), 'f', -1, 64)
}

func finiteNumber(value any) (float64, bool) {
	text, ok := scalarText(value)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	return number, err == nil && !math.IsNaN(number) && !math.IsInf(number, 0)
}

// traceID returns the trace id of a W3C traceparent header
// (https://www.w3.org/TR/trace-context/#traceparent-header).
func traceID(headers amqp.Table) string {
	parent := typedTable(headers).text("traceparent")
	_, rest, _ := strings.Cut(parent, "-")
	id, rest, _ := strings.Cut(rest, "-")
	if len(id) != 32 || strings.Trim(id, "0123456789abcdefABCDEF") != "" || !strings.Contains(rest, "-") {
		return ""
	}
	return id
}

package schemas

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// What a flattened field accepts
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/flattened.html).
// What is beyond is left out of the search and is in the exact envelope all the same.
const (
	flattenedDepth = 20
	flattenedTerm  = 32766 // bytes of a key's path and its value together
)

// appendHeaders makes headers searchable: all of them as text, and those on
// the lists as labels.
func (f DocumentFormat) appendHeaders(o *object, table amqp.Table) {
	o.nested("headers", func(o *object) { appendFlattened(o, table, 1, 0) })
	o.nested("labels", func(o *object) {
		for _, name := range f.Labels {
			if text, ok := scalarText(table[name]); ok {
				o.string(labelName(name), shorten(text, flattenedTerm/4))
			}
		}
	})
	o.nested("numeric_labels", func(o *object) {
		for _, name := range f.NumericLabels {
			if number, ok := finiteNumber(table[name]); ok {
				o.key(labelName(name))
				o.dst = strconv.AppendFloat(o.dst, number, 'g', -1, 64)
			}
		}
	})
}

// labelName has no dots, which would make an object of the label (ECS labels).
func labelName(header string) string { return strings.ReplaceAll(header, ".", "_") }

func appendFlattened(o *object, table amqp.Table, depth, path int) {
	seen := make(map[string]bool, len(table))
	for _, key := range slices.Sorted(maps.Keys(table)) {
		name := strings.ToValidUTF8(key, "\ufffd")
		if seen[name] || strings.ContainsRune(name, 0) {
			continue
		}
		seen[name] = true
		appendFlattenedValue(o, name, table[key], depth, path+len(name)+1)
	}
}

func appendFlattenedValue(o *object, name string, value any, depth, path int) {
	switch v := value.(type) {
	case amqp.Table:
		if depth < flattenedDepth {
			o.nested(name, func(o *object) { appendFlattened(o, v, depth+1, path) })
		}
	case []any:
		if texts := scalarTexts(v, path); len(texts) > 0 {
			o.key(name)
			o.dst = appendStrings(o.dst, texts)
		}
	default:
		if text, ok := scalarText(v); ok && path+len(text) < flattenedTerm {
			o.key(name)
			o.dst = appendString(o.dst, text)
		}
	}
}

func scalarTexts(values []any, path int) []string {
	var texts []string
	for _, value := range values {
		if text, ok := scalarText(value); ok && path+len(text) < flattenedTerm {
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
		dst = appendString(dst, text)
	}
	return append(dst, ']')
}

// scalarText is a header's value as one would type it in a search.
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
	}
	return fmt.Sprint(value), true
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

// traceID is the trace of a W3C traceparent header (https://www.w3.org/TR/trace-context/#traceparent-header).
func traceID(headers amqp.Table) string {
	parts := strings.Split(ours(headers).text("traceparent"), "-")
	if len(parts) < 4 || len(parts[1]) != 32 {
		return ""
	}
	if _, err := hex.DecodeString(parts[1]); err != nil {
		return ""
	}
	return parts[1]
}

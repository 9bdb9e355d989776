// Package scalar converts the values of documents to those that SQL compares.
package scalar

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/watershipmq/watership/eventstore/kql"
)

// Convert converts a value to the type that SQL compares; nil if it is not searchable.
func Convert(field kql.Field, value any) (any, error) {
	var result any
	ok := true
	switch {
	case value == nil:
	case field.Type == kql.Date:
		result, ok = scalarMillis(value)
	case field.Type == kql.Long:
		result, ok = scalarInteger(value)
	case field.Type == kql.Double:
		result, ok = scalarDouble(value)
	case field.Type == kql.Text:
		result, ok = scalarText(value)
	default:
		return scalarKeyword(field, value)
	}
	if !ok {
		return nil, fmt.Errorf("%s is %s, expected a %s", field.Name, Describe(value), field.Type)
	}
	return result, nil
}

// MaxKeywordLength is the length of the longest searchable value, in UTF-16 code units
// (ignore_above in the mapping).
const MaxKeywordLength = 8191

func scalarKeyword(field kql.Field, value any) (any, error) {
	if _, ok := scalarText(value); !ok {
		return nil, fmt.Errorf("%s is %s, expected a %s", field.Name, Describe(value), field.Type)
	}
	if result, ok := KeywordText(value); ok {
		return result, nil
	}
	return nil, nil
}

// KeywordText returns a value's text, unless it has none or is too long to be searched.
func KeywordText(value any) (string, bool) {
	result, ok := scalarText(value)
	if !ok || len(result) > MaxKeywordLength && len(utf16.Encode([]rune(result))) > MaxKeywordLength {
		return "", false
	}
	return result, true
}

// scalarText returns a value as it is written in the document, without quotes.
func scalarText(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// scalarMillis parses a date, without date math, which is for queries.
func scalarMillis(value any) (int64, bool) {
	date, ok := scalarText(value)
	if at, err := time.Parse(time.RFC3339Nano, date); err == nil {
		return at.UnixMilli(), true
	}
	at, err := kql.Instant(date, time.Time{}, kql.First)
	return at.UnixMilli(), ok && err == nil && !strings.HasPrefix(date, "now") && !strings.Contains(date, "||")
}

// scalarInteger parses a number and truncates it.
func scalarInteger(value any) (int64, bool) {
	digits, ok := scalarText(value)
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return n, ok
	}
	f, isNumber := scalarDouble(value)
	return int64(f), isNumber && f >= math.MinInt64 && f < math.MaxInt64
}

func scalarDouble(value any) (float64, bool) {
	if _, isBool := value.(bool); isBool {
		return 0, false
	}
	digits, ok := scalarText(value)
	f, err := strconv.ParseFloat(digits, 64)
	return f, ok && err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// Describe names a value of the wrong type for an error.
func Describe(value any) string {
	switch v := value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return fmt.Sprintf("%.100q", v)
	case json.Number:
		return fmt.Sprintf("the number %.100s", v)
	}
	return fmt.Sprint(value)
}

package sqlite

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/watershipmq/watership/schemas/query"
)

// scalar is a value as it is compared in SQL; nil for one that is not searched.
func scalar(field query.Field, value any) (any, error) {
	var kept any
	ok := true
	switch {
	case value == nil:
	case field.Type == query.Date:
		kept, ok = millis(value)
	case field.Type == query.Long:
		kept, ok = whole(value)
	case field.Type == query.Double:
		kept, ok = double(value)
	case field.Type == query.Text:
		kept, ok = text(value)
	default:
		return keyword(field, value)
	}
	if !ok {
		return nil, fmt.Errorf("%s is %s, expected a %s", field.Name, describe(value), field.Type)
	}
	return kept, nil
}

// longestKeyword is how long a value may be to be searched, in UTF-16 code
// units (ignore_above in the mapping).
const longestKeyword = 8191

func keyword(field query.Field, value any) (any, error) {
	if _, ok := text(value); !ok {
		return nil, fmt.Errorf("%s is %s, expected a %s", field.Name, describe(value), field.Type)
	}
	if kept, ok := searchable(value); ok {
		return kept, nil
	}
	return nil, nil
}

// searchable is a value's text, unless there is none or it is too long.
func searchable(value any) (string, bool) {
	kept, ok := text(value)
	if !ok || len(kept) > longestKeyword && len(utf16.Encode([]rune(kept))) > longestKeyword {
		return "", false
	}
	return kept, true
}

// text is a value as it stands in the document, without quotes.
func text(value any) (string, bool) {
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

// millis reads a date: no date math, which is for queries.
func millis(value any) (int64, bool) {
	date, ok := text(value)
	if at, err := time.Parse(time.RFC3339Nano, date); err == nil {
		return at.UnixMilli(), true
	}
	at, err := query.Instant(date, time.Time{}, query.First)
	return at.UnixMilli(), ok && err == nil && !strings.HasPrefix(date, "now") && !strings.Contains(date, "||")
}

// whole reads a number and cuts off what is behind its point.
func whole(value any) (int64, bool) {
	digits, ok := text(value)
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return n, ok
	}
	f, isNumber := double(value)
	return int64(f), isNumber && f >= math.MinInt64 && f < math.MaxInt64
}

func double(value any) (float64, bool) {
	if _, isBool := value.(bool); isBool {
		return 0, false
	}
	digits, ok := text(value)
	f, err := strconv.ParseFloat(digits, 64)
	return f, ok && err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

package operation

import (
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/watershipmq/watership/internal/operation/problem"
)

// FormatCursor returns a cursor as text for URLs.
func FormatCursor(c any) string {
	text, _ := json.Marshal(c) // numbers, texts and a time
	return base64.RawURLEncoding.EncodeToString(text)
}

// ParseCursor reads a text of FormatCursor; "" is the zero value.
func ParseCursor[T any](text string) (c T, err error) {
	if text == "" {
		return c, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil || FormatCursor(c) != text { // another object would be the beginning
		return c, errCursor()
	}
	return c, nil
}

func errCursor() error {
	return problem.BadRequest("the cursor cannot be read", "Use the cursor of the page before unchanged.")
}

// ParseOffset reads a cursor of PageAt: the number of items before the page. "" is the first page.
func ParseOffset(cursor string) (int, error) {
	if cursor == "" {
		return 0, nil
	}
	offset, err := strconv.Atoi(cursor)
	if err != nil || offset < 0 {
		return 0, errCursor()
	}
	return offset, nil
}

// PageAt returns the page at an offset of a list that is read for each page, and the cursor of the
// page after it; "": it is the last.
func PageAt[T any](all []T, offset, limit int) (page []T, next string) {
	rest := all[min(offset, len(all)):]
	if len(rest) > limit {
		next = strconv.Itoa(offset + limit)
	}
	return rest[:min(limit, len(rest))], next
}

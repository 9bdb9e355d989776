package operation

import (
	"encoding/base64"
	"encoding/json"

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
		return c, problem.BadRequest("the cursor cannot be read", "Use the cursor of the page before unchanged.")
	}
	return c, nil
}

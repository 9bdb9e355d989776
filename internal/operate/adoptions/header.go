package adoptions

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// headers are those of a message, in the types of any client.
type headers amqp.Table

// text returns a header as text, "" if it is absent or no text.
func (h headers) text(name string) string { return textOf(h[name]) }

func textOf(value any) string {
	switch v := value.(type) {
	case string:
		return strings.ToValidUTF8(v, "?")
	case []byte:
		return strings.ToValidUTF8(string(v), "?")
	}
	return ""
}

// isTextOrNull reports whether a header is there, and is text or null.
func (h headers) isTextOrNull(name string) bool {
	switch value, has := h[name]; value.(type) {
	case string, []byte:
		return true
	case nil:
		return has
	}
	return false
}

// number returns a header that is a whole number from 0 to 2³¹-1, or text of one; 0 if it is
// neither.
func (h headers) number(name string) int {
	text := h.text(name)
	if text == "" {
		text = fmt.Sprint(h[name])
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// time returns a header as timeOf does.
func (h headers) time(name string, layouts ...string) time.Time { return timeOf(h[name], layouts...) }

// timeOf returns a value that is an AMQP timestamp, text in one of these layouts, or
// milliseconds since 1970; zero for other values.
func timeOf(value any, layouts ...string) time.Time {
	if at, is := value.(time.Time); is {
		return at.UTC()
	}
	text := textOf(value)
	for _, layout := range layouts {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC()
		}
	}
	if text == "" {
		text = fmt.Sprint(value)
	}
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil && ms > 0 && ms < math.MaxInt64/int64(time.Millisecond) {
		return time.UnixMilli(ms).UTC()
	}
	return time.Time{}
}

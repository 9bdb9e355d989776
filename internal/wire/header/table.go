package header

import (
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Table reads and writes the values of a table, with any type that a client gave
// them.
type Table amqp.Table

// Text returns a text; "" for a value of another type.
func (h Table) Text(name string) string {
	s, _ := h[name].(string)
	return s
}

// Int returns an integer of any type; 0 for another value.
func (h Table) Int(name string) int64 { return Integer(h[name]) }

// LongestDelay is the longest time of a delay queue.
const LongestDelay = (1<<32 - 1) * time.Millisecond

// Delay returns a number of milliseconds, up to LongestDelay.
func (h Table) Delay(name string) time.Duration {
	return time.Duration(min(max(0, h.Int(name)), LongestDelay.Milliseconds())) * time.Millisecond
}

// Time returns a time that SetTime wrote; the zero time for another value.
func (h Table) Time(name string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, h.Text(name))
	if err != nil || t.UTC().Year() < 0 || t.UTC().Year() > 9999 { // a date field of the store would refuse it
		return time.Time{}
	}
	return t
}

// SetText sets a text, unless it is empty.
func (h Table) SetText(name, value string) {
	if value != "" {
		h[name] = value
	}
}

// SetInt sets an integer, unless it is zero.
func (h Table) SetInt(name string, value int64) {
	if value != 0 {
		h[name] = value
	}
}

// SetFlag sets 1, if the value is true.
func (h Table) SetFlag(name string, value bool) {
	if value {
		h[name] = int64(1)
	}
}

// SetTime sets a time as text, unless it is zero.
func (h Table) SetTime(name string, value time.Time) {
	if !value.IsZero() {
		h[name] = value.UTC().Format(time.RFC3339Nano)
	}
}

// Shorten cuts s to at most limit bytes, between two characters.
func Shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	const ellipsis = "…"
	if limit < len(ellipsis) {
		return ""
	}
	cut := limit - len(ellipsis)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + ellipsis
}

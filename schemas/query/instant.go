package query

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// End says which end of the time that a date names is meant: 2026-01-31 is a
// day, and now/d is one too.
type End int

// The first millisecond of it, or the last.
const (
	First End = iota
	Last
)

// End is the end that a comparison with a date means: after a day is after its
// last
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/query-dsl-range-query.html#range-query-date-math-rounding).
func (op Op) End() End {
	if op == Greater || op == LessOrEqual {
		return Last
	}
	return First
}

// Instant reads a date as Elasticsearch does: an ISO 8601 date or time, in UTC
// where it names no zone, milliseconds since 1970, or date math. It is exact to
// the millisecond. The error is for what [Resolve] refuses.
func Instant(text string, now time.Time, end End) (time.Time, error) {
	if !isDate(text) {
		return time.Time{}, fmt.Errorf("%q is not a date", text)
	}
	if math, ok := strings.CutPrefix(text, "now"); ok {
		return calculate(now.UTC().Truncate(time.Millisecond), math, end), nil
	}
	anchor, math, calculated := strings.Cut(text, "||")
	if calculated {
		return calculate(instantOf(anchor, First), math, end), nil
	}
	return instantOf(text, end), nil
}

// instantOf reads what isDate has found to be one.
func instantOf(text string, end End) time.Time {
	parts := instant.FindStringSubmatch(text)
	if parts == nil {
		millis, _ := strconv.ParseInt(text, 10, 64)
		return time.UnixMilli(millis).UTC()
	}
	plain := strings.Replace(parts[1]+parts[2], ",", ".", 1)
	zone := text[len(parts[1]+parts[2]):]
	at, _ := time.ParseInLocation(layoutOf(plain), plain, zoneOf(zone))
	if end == Last {
		at = at.Add(missing(plain) - time.Millisecond)
	}
	return at.UTC().Truncate(time.Millisecond)
}

func layoutOf(plain string) string {
	const layout = "2006-01-02T15:04:05.999999999"
	return layout[:min(len(plain), len(layout))]
}

// missing is the length of the time that a date names. As in Elasticsearch a
// year and a month stand for their first day.
func missing(plain string) time.Duration {
	switch {
	case len(plain) <= len("2006-01-02"):
		return 24 * time.Hour
	case len(plain) == len("2006-01-02T15"):
		return time.Hour
	case len(plain) == len("2006-01-02T15:04"):
		return time.Minute
	case len(plain) == len("2006-01-02T15:04:05"):
		return time.Second
	}
	return time.Millisecond
}

func zoneOf(text string) *time.Location {
	hours, minutes := offsetOf(text)
	seconds := (hours*60 + minutes) * 60
	if strings.HasPrefix(text, "-") {
		seconds = -seconds
	}
	return time.FixedZone(text, seconds)
}

// calculate does what isDate has found to be date math, such as -1d/d.
func calculate(at time.Time, math string, end End) time.Time {
	for math != "" {
		op := math[0]
		digits := strings.TrimLeft(math[1:], "0123456789")
		unit, amount := digits[0], math[1:len(math)-len(digits)]
		math = digits[1:]
		if op == '/' {
			at = round(at, unit, end)
			continue
		}
		count := 1
		if amount != "" {
			count, _ = strconv.Atoi(amount)
		}
		if op == '-' {
			count = -count
		}
		at = add(at, unit, count)
	}
	return at
}

func add(at time.Time, unit byte, count int) time.Time {
	switch unit {
	case 'y':
		return addMonths(at, 12*count)
	case 'M':
		return addMonths(at, count)
	case 'w':
		return at.AddDate(0, 0, 7*count)
	case 'd':
		return at.AddDate(0, 0, count)
	case 'h', 'H':
		return at.Add(time.Duration(count) * time.Hour)
	case 'm':
		return at.Add(time.Duration(count) * time.Minute)
	default:
		return at.Add(time.Duration(count) * time.Second)
	}
}

// addMonths keeps to the last day of a shorter month, where AddDate would go on
// into the next.
func addMonths(at time.Time, count int) time.Time {
	moved := at.AddDate(0, count, 0)
	if moved.Day() != at.Day() {
		moved = moved.AddDate(0, 0, -moved.Day())
	}
	return moved
}

// round finds the first or the last millisecond of the unit of time that at is
// in. A week begins on Monday.
func round(at time.Time, unit byte, end End) time.Time {
	year, month, day := at.Date()
	switch unit {
	case 'y':
		at = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
	case 'M':
		at = time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	case 'w':
		monday := (int(at.Weekday()) + 6) % 7
		at = time.Date(year, month, day-monday, 0, 0, 0, 0, time.UTC)
	case 'd':
		at = time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	case 'h', 'H':
		at = at.Truncate(time.Hour)
	case 'm':
		at = at.Truncate(time.Minute)
	default:
		at = at.Truncate(time.Second)
	}
	if end == Last {
		at = add(at, unit, 1).Add(-time.Millisecond)
	}
	return at
}

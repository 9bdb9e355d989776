package kql

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// End is one end of the time span of a date: 2026-01-31 is a whole day, and so is
// now/d.
type End int

// The first millisecond of the span, or the last.
const (
	First End = iota
	Last
)

// End returns the end of a date's span that a comparison uses: after a day is after
// its last millisecond
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/query-dsl-range-query.html#range-query-date-math-rounding).
func (op Op) End() End {
	if op == Greater || op == LessOrEqual {
		return Last
	}
	return First
}

// Instant parses a date as Elasticsearch does: an ISO 8601 date or time,
// milliseconds since 1970, or date math. The zone of now applies to a date without
// a zone and to rounding, as time_zone does in a request
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/query-dsl-range-query.html#range-query-time-zone).
// The result is in UTC and exact to the millisecond. Dates before the year 0 or
// after 9999, in which no event can be, become the first or last instant of those
// years. The error is for a text that [Resolve] refuses.
func Instant(text string, now time.Time, end End) (time.Time, error) {
	if !isDate(text) {
		return time.Time{}, fmt.Errorf("%q is not a date", text)
	}
	if math, ok := strings.CutPrefix(text, "now"); ok {
		return bounded(calculate(now.Truncate(time.Millisecond), math, end)), nil
	}
	anchor, math, calculated := strings.Cut(text, "||")
	if calculated {
		return bounded(calculate(instantOf(anchor, First, now.Location()), math, end)), nil
	}
	return bounded(instantOf(text, end, now.Location())), nil
}

// DateTime returns a time in the form of ISO 8601 if it has a space between date and time, as
// people write it.
func DateTime(text string) string { return strings.Replace(text, " ", "T", 1) }

// bounded limits a time to the range that [InstantLayout] can write.
func bounded(at time.Time) time.Time {
	at = at.UTC()
	switch {
	case at.Year() < 0:
		return time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	case at.Year() > 9999:
		return time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Millisecond)
	}
	return at
}

// instantOf parses a text that isDate accepts, and returns it in a zone.
func instantOf(text string, end End, zone *time.Location) time.Time {
	parts := instant.FindStringSubmatch(text)
	if parts == nil {
		millis, _ := strconv.ParseInt(text, 10, 64)
		return time.UnixMilli(millis).In(zone)
	}
	plain, own := strings.Replace(parts[1]+parts[2], ",", ".", 1), zone
	if parts[3] != "" {
		own = zoneOf(parts[3])
	}
	wall, _ := time.Parse(layoutOf(plain), plain)
	if end == Last {
		wall = wall.Add(lengthOf(plain) - time.Millisecond)
	}
	return local(wall, own, 0).In(zone).Truncate(time.Millisecond)
}

func layoutOf(plain string) string {
	const layout = "2006-01-02T15:04:05.999999999"
	return layout[:min(len(plain), len(layout))]
}

// lengthOf returns the length of the time span of a date. As in Elasticsearch a
// year and a month mean their first day.
func lengthOf(plain string) time.Duration {
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

// calculate evaluates date math that isDate accepts, such as -1d/d.
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
		return relocate(at, wallOf(at).AddDate(0, 0, 7*count))
	case 'd':
		return relocate(at, wallOf(at).AddDate(0, 0, count))
	case 'h', 'H':
		return addSeconds(at, 3600*count)
	case 'm':
		return addSeconds(at, 60*count)
	default:
		return addSeconds(at, count)
	}
}

// addSeconds adds seconds beyond the three hundred years of a time.Duration.
func addSeconds(at time.Time, count int) time.Time {
	return time.Unix(at.Unix()+int64(count), int64(at.Nanosecond())).In(at.Location())
}

// addMonths ends at the last day of a shorter month, where AddDate would continue
// into the next month.
func addMonths(at time.Time, count int) time.Time {
	wall := wallOf(at)
	moved := wall.AddDate(0, count, 0)
	if moved.Day() != wall.Day() {
		moved = moved.AddDate(0, 0, -moved.Day())
	}
	return relocate(at, moved)
}

// round returns the first or the last millisecond of the unit of time around at. A
// week begins on Monday.
func round(at time.Time, unit byte, end End) time.Time {
	at = begin(at, unit)
	if end == Last {
		at = add(at, unit, 1).Add(-time.Millisecond)
	}
	return at
}

func begin(at time.Time, unit byte) time.Time {
	wall := wallOf(at)
	year, month, day := wall.Date()
	switch unit {
	case 'y':
		month, day = time.January, 1
	case 'M':
		day = 1
	case 'w':
		day -= (int(wall.Weekday()) + 6) % 7
	case 'd':
	case 'h', 'H':
		return relocate(at, wall.Truncate(time.Hour))
	case 'm':
		return relocate(at, wall.Truncate(time.Minute))
	default:
		return relocate(at, wall.Truncate(time.Second))
	}
	return relocate(at, time.Date(year, month, day, 0, 0, 0, 0, time.UTC))
}

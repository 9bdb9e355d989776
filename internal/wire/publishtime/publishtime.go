// Package publishtime finds the time at which a message was published, in what its
// publisher wrote.
package publishtime

import (
	"strconv"
	"time"
)

// OfStamp converts a timestamp of AMQP, which has seconds. Many publishers set
// milliseconds or microseconds.
func OfStamp(stamp, received time.Time) (time.Time, bool) {
	if IsPlausible(stamp, received) {
		return stamp, true
	}
	return sinceEpoch(stamp.Unix(), received)
}

// Of converts the value of a header, whose integers are int64. It returns false for a value that is no
// plausible time.
func Of(value any, received time.Time) (time.Time, bool) {
	switch v := value.(type) {
	case time.Time:
		return OfStamp(v, received)
	case string:
		return parseTime(v, received)
	case []byte:
		return parseTime(string(v), received)
	case float64:
		return sinceEpochFraction(v, received)
	case int64:
		return sinceEpoch(v, received)
	}
	return time.Time{}, false
}

// sinceEpoch converts a number of seconds, milliseconds, microseconds or nanoseconds. In
// at most one of these units it is a plausible time, since the units are a thousand
// times apart.
func sinceEpoch(n int64, received time.Time) (time.Time, bool) {
	if n <= 0 {
		return time.Time{}, false
	}
	for _, t := range [...]time.Time{time.Unix(n, 0), time.UnixMilli(n), time.UnixMicro(n), time.Unix(0, n)} {
		if IsPlausible(t, received) {
			return t, true
		}
	}
	return time.Time{}, false
}

// sinceEpochFraction is sinceEpoch for a number with a fraction, which gives microseconds:
// a float64 of seconds is no more precise.
func sinceEpochFraction(n float64, received time.Time) (time.Time, bool) {
	for _, unit := range [...]time.Duration{time.Second, time.Millisecond, time.Microsecond, time.Nanosecond} {
		ns := n * float64(unit)
		if !(ns > 0 && ns < 1<<63) { // which NaN is not
			continue
		}
		if t := time.Unix(0, int64(ns)).Round(time.Microsecond); IsPlausible(t, received) {
			return t, true
		}
	}
	return time.Time{}, false
}

// longestTime is longer than any text of timeLayouts, in bytes.
const longestTime = 64

// parseTime parses a time in one of timeLayouts, or a number.
func parseTime(text string, received time.Time) (time.Time, bool) {
	if len(text) > longestTime {
		return time.Time{}, false
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return sinceEpoch(n, received)
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return sinceEpochFraction(n, received)
	}
	for _, layout := range timeLayouts() {
		if t, err := time.Parse(layout, text); err == nil {
			return t, IsPlausible(t, received)
		}
	}
	return time.Time{}, false
}

// timeLayouts returns RFC 3339 and RFC 1123 with their usual variants. A time without a
// zone is UTC. Only the names of UTC are known zones: time.Parse takes any
// other for UTC, too.
func timeLayouts() [9]string {
	return [...]string{
		time.RFC3339, // also with a fraction of a second
		"2006-01-02T15:04:05Z0700",
		"2006-01-02T15:04:05",
		"2006-01-02 15:04:05Z07:00",
		"2006-01-02 15:04:05Z0700",
		"2006-01-02 15:04:05",
		"Mon, 2 Jan 2006 15:04:05 GMT",
		"Mon, 2 Jan 2006 15:04:05 UTC",
		"Mon, 2 Jan 2006 15:04:05 -0700",
	}
}

const (
	LongestLag   = 7 * 24 * time.Hour // an indexer that was down
	maxClockSkew = 5 * time.Minute    // the greatest difference between the clocks of two machines
)

// IsPlausible reports whether a message that the indexer received at a time can have been
// published at t.
func IsPlausible(t, received time.Time) bool {
	// time.Time.Before would overflow with the most distant times that a header can
	// hold.
	return t.Unix() > received.Add(-LongestLag).Unix() && t.Unix() < received.Add(maxClockSkew).Unix()
}

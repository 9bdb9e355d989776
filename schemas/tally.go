package schemas

import "time"

// Tally says which values a field has in the events of a selection, and how often.
type Tally struct {
	Values []Value // the most frequent, most frequent first; over time: all, in order

	Others  int64 // events with values that are not among these
	Without int64 // events without the field

	// Inexact is by how much a count may be too low: more than 0 only where
	// Elasticsearch keeps the events in several shards and values are many.
	Inexact int64
}

// Value is one value of a field.
type Value struct {
	Text  string
	Count int64
}

// RoundStep is the shortest round step of time by which a span has at most n of
// them. One is spare, since steps begin at round times and not where the span
// does.
func RoundStep(span time.Duration, n int) time.Duration {
	const day = 24 * time.Hour
	for _, step := range []time.Duration{
		time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute, 15 * time.Minute,
		time.Hour, 3 * time.Hour, 12 * time.Hour, day, 7 * day, 30 * day,
	} {
		if span/step+2 <= time.Duration(n) {
			return step
		}
	}
	return 365 * day
}

// ZoneOffset is how far the clocks of a zone are ahead of UTC at a time, in
// milliseconds since 1970.
func ZoneOffset(zone *time.Location, millis int64) time.Duration {
	_, seconds := time.UnixMilli(millis).In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

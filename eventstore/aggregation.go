package eventstore

import "time"

// Aggregation has the values of a field in the events of a selection, with their counts.
type Aggregation struct {
	Values []Bucket // the most frequent, most frequent first; over time: all, in order

	Others  int64 // events with values that are not in Values
	Without int64 // events without the field

	// Inexact is the greatest error of a count, which may be too low: more than 0
	// only if Elasticsearch keeps the events in several shards and the field has
	// many values.
	Inexact int64
}

// Bucket is one value of a field with its count.
type Bucket struct {
	Text  string
	Count int64
}

// Steps are steps of time of equal length, one after the other.
type Steps struct {
	Begin  time.Time // of the first
	Length time.Duration
	Count  int
}

// NewSteps returns at most n round steps, from the one with the first time to the one with
// the last. Days begin at midnight in the zone, with the UTC offset of the last time.
func NewSteps(first, last time.Time, n int, zone *time.Location) Steps {
	length := roundStep(last.Sub(first), n)
	shift := zoneOffset(zone, last.UnixMilli()).Milliseconds()
	begin := stepIndex(first.UnixMilli()+shift, length.Milliseconds())
	end := stepIndex(last.UnixMilli()+shift, length.Milliseconds())
	return Steps{time.UnixMilli(begin*length.Milliseconds() - shift).UTC(), length, int(end-begin) + 1}
}

// At returns the begin of a step; At(Count) is the end of the last one.
func (s Steps) At(i int) time.Time { return s.Begin.Add(time.Duration(i) * s.Length) }

// Text returns the begin of a step as Buckets have it.
func (s Steps) Text(i int) string { return s.At(i).UTC().Format("2006-01-02T15:04:05.000Z") }

// Buckets returns the counts of the steps as the values of an Aggregation.
func (s Steps) Buckets(counts []int64) []Bucket {
	list := make([]Bucket, len(counts))
	for i, count := range counts {
		list[i] = Bucket{Text: s.Text(i), Count: count}
	}
	return list
}

// stepIndex rounds down, also for times before 1970.
func stepIndex(millis, step int64) int64 {
	at := millis / step
	if at*step > millis {
		at--
	}
	return at
}

// roundStep returns the shortest round step of time that divides a span into at
// most n steps. One of the n is spare, since steps begin at round times and not
// where the span does.
func roundStep(span time.Duration, n int) time.Duration {
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

// zoneOffset returns the offset of a zone from UTC at a time, given in milliseconds
// since 1970.
func zoneOffset(zone *time.Location, millis int64) time.Duration {
	_, seconds := time.UnixMilli(millis).In(zone).Zone()
	return time.Duration(seconds) * time.Second
}

package schemas

import (
	"strconv"
	"time"
)

// publishedAt returns the best known time at which a message was published, and its
// source. A publisher can set each of the times, since a broker that sets
// timestamp_in_ms may leave an existing one. So a time counts only within the longest
// time that a copy can wait for the indexer. A replay has the times of the message that
// it repeats, except for times that the broker has set since.
func (dec Decoder) publishedAt(arrived Envelope, replayed bool, received time.Time) (time.Time, TimeSource) {
	headers := typedTable(arrived.Headers)
	ms := headers.int(headerBrokerTime)
	if own := !replayed || ms != headers.int(headerBrokerCopy); own && ms > 0 && plausible(time.UnixMilli(ms), received) {
		return time.UnixMilli(ms), TimeOfBroker
	}
	if replayed {
		return received, TimeOfIngest
	}
	if t, found := plausibleStamp(arrived.Properties.Timestamp, received); found {
		return t, TimeOfPublisher
	}
	for _, name := range dec.TimeHeaders {
		if t, found := plausibleTime(headers[name], received); found {
			return t, TimeOfPublisher
		}
	}
	return received, TimeOfIngest
}

// plausibleStamp converts a timestamp of AMQP, which has seconds. Many publishers set
// milliseconds or microseconds.
func plausibleStamp(stamp, received time.Time) (time.Time, bool) {
	if plausible(stamp, received) {
		return stamp, true
	}
	return sinceEpoch(stamp.Unix(), received)
}

// plausibleTime converts the value of a header. It returns false for a value that is no
// plausible time.
func plausibleTime(value any, received time.Time) (time.Time, bool) {
	switch v := value.(type) {
	case time.Time:
		return plausibleStamp(v, received)
	case string:
		return parseTime(v, received)
	case []byte:
		return parseTime(string(v), received)
	case float64:
		return sinceEpochFraction(v, received)
	}
	return sinceEpoch(integer(value), received)
}

// sinceEpoch converts a number of seconds, milliseconds, microseconds or nanoseconds. In
// at most one of these units it is a plausible time, since the units are a thousand
// times apart.
func sinceEpoch(n int64, received time.Time) (time.Time, bool) {
	if n <= 0 {
		return time.Time{}, false
	}
	for _, t := range [...]time.Time{time.Unix(n, 0), time.UnixMilli(n), time.UnixMicro(n), time.Unix(0, n)} {
		if plausible(t, received) {
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
		if t := time.Unix(0, int64(ns)).Round(time.Microsecond); plausible(t, received) {
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
			return t, plausible(t, received)
		}
	}
	return time.Time{}, false
}

// timeLayouts returns RFC 3339 and RFC 1123 with their usual variants. A time without a
// zone is UTC. Of the names of zones only those of UTC are known: time.Parse takes any
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
	longestLag   = 7 * 24 * time.Hour // an indexer that was down
	maxClockSkew = 5 * time.Minute    // the greatest difference between the clocks of two machines
)

func plausible(t, received time.Time) bool {
	// time.Time.Before would overflow with the most distant times that a header can
	// hold.
	return t.Unix() > received.Add(-longestLag).Unix() && t.Unix() < received.Add(maxClockSkew).Unix()
}

package kql

import "time"

// wallOf returns the local time of at in its zone, written as UTC. Calendar
// arithmetic is safe in UTC, which has no change of clocks.
func wallOf(at time.Time) time.Time {
	_, offset := at.Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// relocate returns the instant of a local time in the zone of at. If there are two,
// it has the offset of at.
func relocate(at, wall time.Time) time.Time {
	_, offset := at.Zone()
	return local(wall, at.Location(), offset)
}

// local returns the instant of a local time in a zone. At a change of clocks it
// follows Java, and so Elasticsearch: a skipped time moves forward by the length of
// the gap; a time that occurs twice has the preferred offset (in seconds east of
// UTC) if it is one of the two, and is the earlier instant otherwise
// (https://docs.oracle.com/en/java/javase/21/docs/api/java.base/java/time/ZonedDateTime.html).
func local(wall time.Time, zone *time.Location, preferred int) time.Time {
	year, month, day := wall.Date()
	hour, minute, second := wall.Clock()
	at := time.Date(year, month, day, hour, minute, second, wall.Nanosecond(), zone)
	switch shown := wallOf(at); {
	case shown.Before(wall):
		return at.Add(wall.Sub(shown)) // time.Date moved it back by the gap
	case shown.After(wall):
		return at // time.Date moved it forward
	}
	return resolveOverlap(at, wall, preferred)
}

// resolveOverlap returns at, or the other instant at which its zone has the same
// local time.
func resolveOverlap(at, wall time.Time, preferred int) time.Time {
	start, end := at.ZoneBounds()
	for _, neighbor := range []time.Time{start.Add(-1), end} {
		_, offset := neighbor.Zone()
		other := wall.Add(-time.Duration(offset) * time.Second).In(at.Location())
		if neighbor.IsZero() || other.Equal(at) || !wallOf(other).Equal(wall) {
			continue
		}
		if _, own := at.Zone(); own == preferred || offset != preferred && at.Before(other) {
			return at
		}
		return other
	}
	return at
}

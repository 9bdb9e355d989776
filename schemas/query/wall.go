package query

import "time"

// wallOf is the local time that at has in its zone, written as if it were UTC, so that
// calendars can be calculated with: there is no change of clocks in UTC.
func wallOf(at time.Time) time.Time {
	_, offset := at.Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// relocate is a local time in the zone of at, on the same side of a change of clocks
// where there are two.
func relocate(at, wall time.Time) time.Time {
	_, offset := at.Zone()
	return local(wall, at.Location(), offset)
}

// local is the instant at which a zone has a local time. It decides as Java does, and
// so Elasticsearch, where clocks are changed: a time that they skip is moved forward by
// the length of the gap; of a time that they show twice the preferred offset (in seconds
// east of UTC) is taken if it is one of the two, and the earlier instant if not
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
	return chosen(at, wall, preferred)
}

// chosen is at, or the other instant at which its zone has the local time.
func chosen(at, wall time.Time, preferred int) time.Time {
	start, end := at.ZoneBounds()
	for _, near := range []time.Time{start.Add(-1), end} {
		_, offset := near.Zone()
		other := wall.Add(-time.Duration(offset) * time.Second).In(at.Location())
		if near.IsZero() || other.Equal(at) || !wallOf(other).Equal(wall) {
			continue
		}
		if _, own := at.Zone(); own == preferred || offset != preferred && at.Before(other) {
			return at
		}
		return other
	}
	return at
}

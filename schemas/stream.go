package schemas

import (
	"strconv"
	"strings"
	"time"
)

// Stream names a data stream: Traffic, Failures, or the one of published events that have another
// period, such as traffic@730d.
type Stream string

// The data streams of events without another period. Failures are kept longer than traffic.
const (
	Traffic  Stream = "traffic"
	Failures Stream = "failures"
)

// Stream returns the data stream for events of the action.
func (a Action) Stream() Stream {
	if a == Published || a == Handled {
		return Traffic
	}
	return Failures
}

const (
	periodMark = "@" // is not in the names of other data streams
	forever    = "forever"
	dayHours   = 24
)

// For returns the stream of published events that are kept for a period, rounded up to whole hours; 0 is
// for ever. Only Traffic has such streams.
func (s Stream) For(period time.Duration) Stream {
	hours := int((period + time.Hour - 1) / time.Hour)
	name := strconv.Itoa(hours) + "h"
	switch {
	case hours == 0:
		name = forever
	case hours%dayHours == 0:
		name = strconv.Itoa(hours/dayHours) + "d"
	}
	return s + periodMark + Stream(name)
}

// Base returns Traffic or Failures: the stream without its period.
func (s Stream) Base() Stream {
	base, _, _ := strings.Cut(string(s), periodMark)
	return Stream(base)
}

// PeriodName returns the period in the name of a stream: forever, or a
// number with the unit d or h. It returns "" for other streams.
func (s Stream) PeriodName() string {
	_, name, _ := strings.Cut(string(s), periodMark)
	return name
}

// Period returns the time for which the events of the stream of a period are kept; 0 is
// for ever. ok is false for the others, which the retention of a store concerns.
func (s Stream) Period() (period time.Duration, ok bool) {
	name := s.PeriodName()
	if name == "" || name == forever {
		return 0, s == Traffic.For(0)
	}
	unit := time.Hour
	if strings.HasSuffix(name, "d") {
		unit *= dayHours
	}
	number, err := strconv.ParseInt(name[:len(name)-1], 10, 32)
	period = time.Duration(number) * unit
	return period, err == nil && period > 0 && Traffic.For(period) == s
}

// IsValid reports whether a stream has one of these names.
func (s Stream) IsValid() bool {
	_, hasPeriod := s.Period()
	return s == Traffic || s == Failures || hasPeriod
}

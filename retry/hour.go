package retry

import (
	"fmt"
	"time"
)

const minutesOfDay = 24 * 60

// parseHour parses an hour of the day, such as 03:00, and returns its minutes.
func parseHour(s string) (minutes int, ok bool) {
	if len(s) != len("03:00") || s[2] != ':' {
		return 0, false
	}
	for _, i := range []int{0, 1, 3, 4} {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	hour, minute := int(s[0]-'0')*10+int(s[1]-'0'), int(s[3]-'0')*10+int(s[4]-'0')
	return hour*60 + minute, hour < 24 && minute < 60
}

// occurrence selects one of the two times of an hour that a change of clocks repeats.
type occurrence bool

const (
	firstOccurrence occurrence = false
	lastOccurrence  occurrence = true
)

// on returns the time at which a clock in a time zone shows an hour of a day. An hour that a
// change of clocks leaves out is as many minutes after the midnight before it.
func on(day time.Time, minutes int, which occurrence, zone *time.Location) time.Time {
	year, month, date := day.Date()
	shown := time.Date(year, month, date, 0, minutes, 0, 0, time.UTC)
	_, before := shown.Add(-24 * time.Hour).In(zone).Zone()
	_, after := shown.Add(24 * time.Hour).In(zone).Zone()
	atBefore, atAfter := shown.Add(-time.Duration(before)*time.Second).In(zone), shown.Add(-time.Duration(after)*time.Second).In(zone)
	shows := func(t time.Time) bool {
		_, offset := t.Zone()
		return t.Add(time.Duration(offset) * time.Second).Equal(shown)
	}
	switch {
	case shows(atBefore) && shows(atAfter):
		if which == lastOccurrence && atAfter.After(atBefore) || which == firstOccurrence && atAfter.Before(atBefore) {
			return atAfter
		}
		return atBefore
	case shows(atAfter):
		return atAfter
	}
	return atBefore
}

// dateOf returns the midnight in UTC of the date of a time. Midnights of time zones in which clocks
// change at midnight need not exist, so that no date is counted by them.
func dateOf(t time.Time) time.Time {
	year, month, date := t.Date()
	return time.Date(year, month, date, 0, 0, 0, 0, time.UTC)
}

// nextHour returns the first time after now at which a clock shows an hour.
func nextHour(now time.Time, minutes int, zone *time.Location) time.Time {
	day := dateOf(now.In(zone))
	for {
		if at := on(day, minutes, firstOccurrence, zone); at.After(now) {
			return at
		}
		day = day.AddDate(0, 0, 1)
	}
}

// zone returns the time zone of the policy.
func (p Policy) zone() (*time.Location, error) {
	if p.TimeZone == "Local" { // it differs between processes
		return time.UTC, fmt.Errorf("time zone %s", p.TimeZone)
	}
	zone, err := time.LoadLocation(p.TimeZone)
	if err != nil {
		return time.UTC, fmt.Errorf("time zone: %w", err)
	}
	return zone, nil
}

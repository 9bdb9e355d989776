package retry

import (
	"fmt"
	"time"
)

// Failure is a failed attempt, as a policy decides about it.
type Failure struct {
	Err     error
	Attempt int       // its number, from 1
	First   time.Time // of the first failure of the message; zero: Now
	Now     time.Time // zero: NoAttempts and GiveUpAfter have no effect
}

const (
	defaultSpread = time.Minute

	// hourGrace is how long after an hour of At its attempts begin, so that clocks that
	// differ make none early, which would be followed by one more at the same hour.
	hourGrace = time.Second

	mostWindows = 100 // that follow one another
)

// untilHour returns the delay until the hour of At for the attempt after the attempt'th.
func (p Policy) untilHour(attempt int, now time.Time, random func() float64) time.Duration {
	minutes, _ := parseHour(p.At[attempt-p.delayed()])
	zone, _ := p.zone()
	return nextHour(now, minutes, zone).Sub(now) + hourGrace + p.spread(random)
}

// spread returns a random part of Spread.
func (p Policy) spread(random func() float64) time.Duration {
	if random == nil {
		return 0
	}
	within := p.Spread
	if within == 0 {
		within = defaultSpread
	}
	return time.Duration(float64(within) * random())
}

// timed returns a decision as NoAttempts and GiveUpAfter change it.
func (p Policy) timed(d Decision, f Failure, random func() float64) Decision {
	if d.Action == Poison || f.Now.IsZero() {
		return d
	}
	d.Delay = p.afterWindows(d.Delay, f.Now, random)
	since := f.First
	if since.IsZero() {
		since = f.Now
	}
	if p.GiveUpAfter > 0 && f.Now.Add(d.Delay).Sub(since) > p.GiveUpAfter {
		return Decision{Action: Poison, Reason: fmt.Sprintf("its next attempt would be later than %s after its first failure", p.GiveUpAfter)}
	}
	return d
}

// afterWindows returns a delay that ends in no window.
func (p Policy) afterWindows(delay time.Duration, now time.Time, random func() float64) time.Duration {
	if len(p.NoAttempts) == 0 {
		return delay
	}
	zone, _ := p.zone()
	due := now.Add(delay)
	end := p.endOfWindows(due, zone)
	if end.Equal(due) {
		return delay
	}
	end = p.endOfWindows(end.Add(p.spread(random)), zone)
	return min(wholeMilliseconds(end.Sub(now)), MaxDelay)
}

// endOfWindows returns the first time from t on that is in no window.
func (p Policy) endOfWindows(t time.Time, zone *time.Location) time.Time {
	for range mostWindows {
		before := t
		for _, window := range p.NoAttempts {
			t, _ = window.endAfter(t, zone)
		}
		if t.Equal(before) {
			break
		}
	}
	return t
}

func wholeMilliseconds(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// timingMistakes checks the fields about hours, windows and the total time.
func timingMistakes(p Policy) []*FieldError {
	var found []*FieldError
	for i, at := range p.At {
		if _, ok := parseHour(at); !ok {
			found = append(found, &FieldError{fmt.Sprintf("at[%d]", i), at, "an hour such as 03:00"})
		}
	}
	if len(p.At) > MaxAttempts {
		found = append(found, &FieldError{Field: "at", Expected: fmt.Sprint("at most ", MaxAttempts, " hours")})
	}
	zone, err := p.zone()
	if err != nil {
		found = append(found, &FieldError{"time_zone", p.TimeZone, "the name of a time zone, such as Europe/Berlin"})
	}
	if p.GiveUpAfter < 0 {
		found = append(found, &FieldError{"give_up_after", p.GiveUpAfter.String(), "a duration"})
	}
	if p.Spread < 0 || p.Spread > 24*time.Hour {
		found = append(found, &FieldError{"spread", p.Spread.String(), "a duration up to 24h"})
	}
	for i, window := range p.NoAttempts {
		found = append(found, window.mistakes(fmt.Sprintf("no_attempts[%d]", i))...)
	}
	if len(found) == 0 && leavesNoTime(p, zone) {
		found = append(found, &FieldError{Field: "no_attempts", Expected: "windows that leave time for attempts, at least once in 31 days"})
	}
	return found
}

// leavesNoTime reports whether windows follow one another for longer than a message can wait.
func leavesNoTime(p Policy, zone *time.Location) bool {
	starts := []time.Time{time.Date(2024, 1, 1, 0, 0, 0, 0, zone)}
	for _, window := range p.NoAttempts {
		from, _, _ := window.hours()
		if day, _, ok := window.dates(); ok {
			starts = append(starts, on(day, from, firstOccurrence, zone))
		}
	}
	for _, start := range starts {
		for day := range 7 {
			begin := start.AddDate(0, 0, day)
			if p.endOfWindows(begin, zone).Sub(begin) > (longestDates+1)*24*time.Hour {
				return true
			}
		}
	}
	return false
}

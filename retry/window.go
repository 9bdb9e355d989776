package retry

import (
	"slices"
	"strings"
	"time"
)

// Window is a time without attempts, such as a maintenance. It repeats on each day
// that Days and Dates allow.
type Window struct {
	Days  []string `json:"days,omitempty"`  // mon, tue, wed, thu, fri, sat, sun: on which it begins; none: any
	Dates string   `json:"dates,omitempty"` // 2026-12-24, or 2026-12-24..2026-12-31: on which it begins; "": any
	From  string   `json:"from,omitempty"`  // hour at which it begins, such as 22:00; "", with To: the whole day
	To    string   `json:"to,omitempty"`    // hour at which it ends, on the next day if that is not after From
}

// String returns the window on one line, such as sat,sun 22:00-06:00.
func (w Window) String() string {
	parts := []string{strings.Join(w.Days, ","), w.Dates}
	if w.From != "" {
		parts = append(parts, w.From+"-"+w.To)
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), " ")
}

// longestDates is the longest period of Dates.
const longestDates = 31

// days returns the names of days as Window has them, by time.Weekday.
func days() []string { return []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} }

// dates returns the first and the last day of Dates, in UTC.
func (w Window) dates() (from, to time.Time, ok bool) {
	begin, end, period := strings.Cut(w.Dates, "..")
	if !period {
		end = begin
	}
	from, errFrom := time.Parse(time.DateOnly, begin)
	to, errTo := time.Parse(time.DateOnly, end)
	return from, to, errFrom == nil && errTo == nil && !to.Before(from) && to.Sub(from) < longestDates*24*time.Hour
}

// hours returns the minutes of the day at which a window begins and ends.
func (w Window) hours() (from, to int, ok bool) {
	if w.From == "" && w.To == "" {
		return 0, minutesOfDay, true
	}
	from, okFrom := parseHour(w.From)
	to, okTo := parseHour(w.To)
	if to <= from {
		to += minutesOfDay
	}
	return from, to, okFrom && okTo
}

// beginsOn reports whether a window begins on a day.
func (w Window) beginsOn(day time.Time) bool {
	if len(w.Days) > 0 && !slices.Contains(w.Days, days()[day.Weekday()]) {
		return false
	}
	if w.Dates == "" {
		return true
	}
	from, to, ok := w.dates()
	return ok && !day.Before(from) && !day.After(to)
}

// endAfter returns the end of the window that a time is in.
func (w Window) endAfter(t time.Time, zone *time.Location) (end time.Time, inside bool) {
	from, to, ok := w.hours()
	if !ok {
		return t, false
	}
	today := dateOf(t.In(zone))
	for _, day := range []time.Time{today.AddDate(0, 0, -1), today} {
		if !w.beginsOn(day) {
			continue
		}
		begin := on(day, from, firstOccurrence, zone)
		end := on(day.AddDate(0, 0, to/minutesOfDay), to%minutesOfDay, lastOccurrence, zone)
		if !t.Before(begin) && t.Before(end) {
			return end, true
		}
	}
	return t, false
}

func (w Window) mistakes(field string) []*FieldError {
	var found []*FieldError
	for _, day := range w.Days {
		if !slices.Contains(days(), day) {
			found = append(found, &FieldError{field + ".days", day, "mon, tue, wed, thu, fri, sat or sun"})
		}
	}
	if _, _, ok := w.dates(); w.Dates != "" && !ok {
		found = append(found, &FieldError{field + ".dates", w.Dates, "a date such as 2026-12-24, or 2026-12-24..2026-12-31, of at most 31 days"})
	}
	for _, hour := range []struct{ name, value string }{{".from", w.From}, {".to", w.To}} {
		if _, ok := parseHour(hour.value); !ok && (w.From != "" || w.To != "") {
			found = append(found, &FieldError{field + hour.name, hour.value, "an hour such as 22:00, or neither from nor to for whole days"})
		}
	}
	if len(w.Days) == 0 && w.Dates == "" && w.From == w.To {
		found = append(found, &FieldError{Field: field, Expected: "days, dates, or from and to"})
	}
	return found
}

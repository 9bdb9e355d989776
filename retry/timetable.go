package retry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Timetable says in words when the attempts are made, one line for each, those
// that wait equally long in one. Classes follow, each under its name.
func (p Policy) Timetable() string {
	var text strings.Builder
	p.writeTimetable(&text)
	for _, name := range slices.Sorted(maps.Keys(p.Classes)) {
		fmt.Fprintf(&text, "class %s\n", name)
		p.Classes[name].writeTimetable(&text)
	}
	return text.String()
}

func (p Policy) writeTimetable(text *strings.Builder) {
	text.WriteString("attempt 1   at once\n")
	for attempt := 2; attempt <= p.attempts(); {
		last := attempt
		for last < p.attempts() && p.delay(last) == p.delay(attempt-1) {
			last++
		}
		if last == attempt {
			fmt.Fprintf(text, "attempt %d   %s later\n", attempt, p.wait(attempt-1))
		} else {
			fmt.Fprintf(text, "attempts %d to %d   %s later each\n", attempt, last, p.wait(attempt-1))
		}
		attempt = last + 1
	}
}

// wait is the delay after an attempt, or between which two it lies.
func (p Policy) wait(attempt int) string {
	longest := p.delay(attempt)
	shortest := p.jittered(longest, func() float64 { return 1 })
	if shortest == longest {
		return short(longest)
	}
	return short(shortest) + " to " + short(longest)
}

// short is a duration without the units that are zero.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

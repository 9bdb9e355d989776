package terminal

import "time"

// Time formats a time in the zone of this process, to the millisecond.
func Time(t time.Time) string { return inZone(t, "2006-01-02 15:04:05.000") }

// Second formats a time in the zone of this process, to the second.
func Second(t time.Time) string { return inZone(t, "2006-01-02 15:04:05") }

// inZone adds the offset from UTC if it is another one than now, as in winter for a time in summer.
func inZone(t time.Time, layout string) string {
	t = t.Local()
	if _, now := time.Now().Zone(); now != offset(t) {
		layout += " -07:00"
	}
	return t.Format(layout)
}

func offset(t time.Time) int {
	_, seconds := t.Zone()
	return seconds
}

// Zone returns the zone in which times are shown, by its offset now.
func Zone() string {
	now := time.Now()
	if offset(now) == 0 {
		return "UTC"
	}
	return "UTC" + now.Format("-07:00")
}

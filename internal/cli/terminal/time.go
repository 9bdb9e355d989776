package terminal

import "time"

const (
	layoutTime   = "2006-01-02 15:04:05.000"
	layoutSecond = "2006-01-02 15:04:05"
	layoutOffset = " -07:00"
)

// Time formats a time in the zone of this process, to the millisecond, with that zone.
func Time(t time.Time) string { return inZone(t, layoutTime) }

// Second formats a time in the zone of this process, to the second, with that zone.
func Second(t time.Time) string { return inZone(t, layoutSecond) }

// Span formats two times in the zone of this process, which it names once, unless their offsets
// differ, as between winter and summer.
func Span(from, to time.Time) string {
	if from = from.Local(); offset(from) == offset(to.Local()) {
		return "from " + from.Format(layoutTime) + " to " + Time(to)
	}
	return "from " + Time(from) + " to " + Time(to)
}

// TimeCell is Time for a column or a list whose title names the zone.
func TimeCell(t time.Time) string { return inColumn(t, layoutTime) }

// SecondCell is Second for a column or a list whose title names the zone.
func SecondCell(t time.Time) string { return inColumn(t, layoutSecond) }

func inZone(t time.Time, layout string) string {
	if t = t.Local(); offset(t) == 0 {
		return t.Format(layout) + " UTC"
	}
	return t.Format(layout + layoutOffset)
}

// inColumn adds the offset from UTC if it is another one than now, which the title has, as in winter
// for a time in summer.
func inColumn(t time.Time, layout string) string {
	if t = t.Local(); offset(t) != offset(time.Now()) {
		layout += layoutOffset
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

// TimesTitle returns the title of a column or a list of times: in a terminal, it names the zone.
func (s Screen) TimesTitle(title string) string {
	if s.Width == 0 {
		return title
	}
	return title + " (" + Zone() + ")"
}

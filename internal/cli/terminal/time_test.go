package terminal

import (
	"strings"
	"testing"
	"time"
)

// A time has its offset if that is another one than the zone's now.
func TestTimesOfAnotherOffset(t *testing.T) {
	now := time.Now()
	if got := SecondCell(now); got != now.Local().Format("2006-01-02 15:04:05") {
		t.Errorf("now is %s", got)
	}
	for month := range 12 {
		at := time.Date(2026, time.Month(month+1), 4, 3, 0, 0, 0, time.Local)
		if same := at.Format("-07:00") == now.Local().Format("-07:00"); strings.HasSuffix(TimeCell(at), at.Format(" -07:00")) == same {
			t.Errorf("%s: %s", at.Format(time.RFC3339), TimeCell(at))
		}
	}
}

// A time in a line has its zone, which two times name once unless it differs.
func TestALineNamesTheZone(t *testing.T) {
	zone := func(t time.Time) string { return strings.TrimSuffix(t.Local().Format(" -07:00"), " +00:00") }
	winter, summer := time.Date(2026, 1, 4, 3, 0, 0, 0, time.Local), time.Date(2026, 7, 4, 3, 0, 0, 0, time.Local)
	for _, at := range []time.Time{winter, summer} {
		suffix := zone(at)
		if suffix == "" {
			suffix = " UTC"
		}
		if got, want := Time(at.UTC()), at.Format("2006-01-02 03:00:00.000")+suffix; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, want := Second(at), at.Format("2006-01-02 03:00:00")+suffix; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if got, want := Span(at, at.UTC()), at.Format("from 2006-01-02 03:00:00.000 to 2006-01-02 03:00:00.000")+suffix; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := Span(winter, summer); (zone(winter) != zone(summer)) != (got == "from "+Time(winter)+" to "+Time(summer)) {
		t.Error(got)
	}
}

func TestATableNamesTheZoneOnce(t *testing.T) {
	columns := []Column{{Title: "COUNT"}, {Title: "FIRST", Fixed: true, Times: true, DropOrder: 1}, {Title: "LAST", Fixed: true, Times: true}}
	for width, want := range map[int]string{0: "COUNT  FIRST  LAST\n", 100: "COUNT  FIRST (" + Zone() + ")  LAST\n", 12: "COUNT  LAST (" + Zone() + ")\n"} {
		var out strings.Builder
		if err := NewTable(&out, Screen{Width: width}, columns...).Flush(); err != nil || out.String() != want {
			t.Errorf("%q, %v, want %q", out.String(), err, want)
		}
	}
}

package chart_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/console/view/chart"
)

func at(hour, minute int) time.Time { return time.Date(2026, 5, 4, hour, minute, 0, 0, time.UTC) }

// counts returns steps of a length from a time on.
func counts(from time.Time, length time.Duration, numbers ...int64) []eventstore.Bucket {
	list := make([]eventstore.Bucket, len(numbers))
	for i, n := range numbers {
		list[i] = eventstore.Bucket{Text: from.Add(time.Duration(i) * length).Format("2006-01-02T15:04:05.000Z"), Count: n}
	}
	return list
}

// draw returns the bars that have events, with the heights of their parts.
func draw(h chart.Histogram) string {
	var text strings.Builder
	for _, bar := range h.Bars {
		if bar.Count == 0 {
			continue
		}
		fmt.Fprintf(&text, "%s=%d", bar.From.Format("15:04"), bar.Count)
		for _, part := range bar.Parts {
			fmt.Fprintf(&text, " %s %.0f+%.0f", part.Name, part.Y, part.Height)
		}
		text.WriteString("; ")
	}
	return text.String()
}

// Series with steps of different lengths stand upon one another in the steps of the period.
func TestSeriesShareTheBarsOfThePeriod(t *testing.T) {
	day := chart.Period{Begin: at(0, 20), End: at(24, 20), Zone: time.UTC}
	h, err := chart.New([]chart.Series{
		{Name: "published", Counts: counts(at(3, 0), time.Hour, 6, 0, 4)},
		{Name: "poisoned", Counts: counts(at(3, 10), time.Minute, 1, 1, 0, 2)},
		{Name: "handled"},
	}, day, 30)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := draw(h), "03:00=10 published 40+60 poisoned 0+40; 05:00=4 published 60+40; "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if h.Total != 14 || len(h.Series) != 2 || h.Series[1].Total != 4 || h.Most() != 10 {
		t.Errorf("got %d events, %+v", h.Total, h.Series)
	}
	if len(h.Bars) != 25 || !h.Begin.Equal(at(0, 0)) || !h.End().Equal(at(25, 0)) || h.Width() != 250 {
		t.Errorf("%d bars from %s to %s", len(h.Bars), h.Begin, h.End())
	}
}

// Without a period, the first and the last event bound the chart.
func TestPeriodOfTheEvents(t *testing.T) {
	list := []chart.Series{{Name: "bar", Counts: counts(at(3, 0), time.Hour, 1, 0, 2)}}
	h, err := chart.New(list, chart.Period{Zone: time.UTC}, 100)
	if err != nil || len(h.Bars) != 3 || !h.Begin.Equal(at(3, 0)) {
		t.Errorf("%d bars from %s, %v", len(h.Bars), h.Begin, err)
	}
	h, err = chart.New(list, chart.Period{End: at(12, 0), Zone: time.UTC}, 100)
	if err != nil || !h.Begin.Equal(at(3, 0)) || !h.End().Equal(at(12, 0)) {
		t.Errorf("from %s to %s, %v", h.Begin, h.End(), err)
	}
	if h, err := chart.New(nil, chart.Period{Begin: at(3, 0), Zone: time.UTC}, 100); err != nil || len(h.Bars) != 0 || h.Width() != 1 {
		t.Errorf("without events: %d bars, %v", len(h.Bars), err)
	}
}

// Days are those of the zone at the end of the period; those of a series whose last event
// is in summer begin an hour off. No event is lost at the edges.
func TestDaysBeginInTheZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	over := chart.Period{Begin: time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC), End: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC), Zone: berlin}
	const day = 24 * time.Hour
	h, err := chart.New([]chart.Series{
		{Name: "summer", Counts: counts(time.Date(2026, 10, 2, 22, 0, 0, 0, time.UTC), day, 5, 1)},
		{Name: "late", Counts: counts(over.End.Add(2*day), time.Hour, 7)},
		{Name: "early", Counts: counts(over.Begin.Add(-2*day), time.Hour, 3)},
	}, over, 70)
	if err != nil {
		t.Fatal(err)
	}
	var days []string
	for _, bar := range h.Bars {
		if bar.Count > 0 {
			days = append(days, fmt.Sprint(bar.From.UTC().Format("01-02T15"), " ", bar.Count))
		}
	}
	if got, want := strings.Join(days, ", "), "09-30T23 3, 10-02T23 5, 10-03T23 1, 11-30T23 7"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Steps before 1970 begin before their events.
func TestStepsBefore1970(t *testing.T) {
	begin := time.Date(1969, 12, 31, 20, 20, 0, 0, time.UTC)
	h, err := chart.New([]chart.Series{{Name: "bar", Counts: counts(begin, time.Minute, 2)}}, chart.Period{Begin: begin, End: begin.Add(3 * time.Hour), Zone: time.UTC}, 5)
	if want := time.Date(1969, 12, 31, 20, 0, 0, 0, time.UTC); err != nil || !h.Begin.Equal(want) || h.Bars[0].Count != 2 {
		t.Errorf("begins at %s, %v, want %s", h.Begin, err, want)
	}
}

func TestTimesThatAreNone(t *testing.T) {
	if _, err := chart.New([]chart.Series{{Counts: []eventstore.Bucket{{Text: "yesterday", Count: 1}}}}, chart.Period{Zone: time.UTC}, 10); err == nil {
		t.Error("a count without a time has no error")
	}
}

// Any period that a URL can have makes a chart of a bounded size, at once.
func TestPeriodsOfAnyLength(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	for _, over := range []chart.Period{
		{Begin: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), End: now, Zone: time.UTC},
		{Begin: time.Date(2, 1, 1, 0, 0, 0, 0, time.UTC), End: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), Zone: time.UTC},
		{Begin: time.Date(2262, 4, 12, 0, 0, 0, 0, time.UTC), End: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), Zone: time.UTC},
		{Begin: now, End: now, Zone: time.UTC},
	} {
		h, err := chart.New([]chart.Series{{Name: "a", Counts: []eventstore.Bucket{{Text: "2026-05-04T03:00:00.000Z", Count: 1}}}}, over, 60)
		if err != nil || len(h.Bars) == 0 || len(h.Bars) > 1000 || h.Bars[0].From.After(over.Begin) {
			t.Errorf("%s to %s: %d bars, %v", over.Begin, over.End, len(h.Bars), err)
		}
	}
}

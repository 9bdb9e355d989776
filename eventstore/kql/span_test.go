package kql

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// label names the unit of local time around an instant, so that two instants have equal
// labels if they are in the same unit.
func label(at time.Time, unit byte) string {
	switch unit {
	case 'y':
		return at.Format("2006")
	case 'M':
		return at.Format("2006-01")
	case 'w':
		year, week := at.ISOWeek()
		return fmt.Sprint(year, "-W", week)
	case 'd':
		return at.Format("2006-01-02")
	case 'h':
		return at.Format("2006-01-02T15")
	case 'm':
		return at.Format("2006-01-02T15:04")
	}
	return at.Format("2006-01-02T15:04:05")
}

// Rounding gives the first and the last millisecond that have the same unit of local
// time: the ones before and after have another. (Where clocks go forward at midnight, as
// in Santiago, a unit of Elasticsearch ends by as much later.)
func TestRoundingGivesTheSpanOfAUnit(t *testing.T) {
	random := rand.New(rand.NewPCG(41, 0))
	for zone, units := range map[string]string{
		"UTC": "yMwdhms", "Asia/Kathmandu": "yMwdms", "Europe/Berlin": "yMwdms", "America/New_York": "yMwdms",
		"Australia/Lord_Howe": "yMwdms", "Pacific/Auckland": "yMwdms",
	} {
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for range 3000 {
			now := time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(random.Int64N(40*365*24*3600*1000)) * time.Millisecond).In(location)
			unit := units[random.IntN(len(units))]
			first, last := instantAt(t, "now/"+string(unit), now, First), instantAt(t, "now/"+string(unit), now, Last)
			if first.After(now) || last.Before(now) {
				t.Fatalf("%s /%c is from %s to %s", now, unit, first, last)
			}
			for at, inside := range map[time.Time]bool{first: true, last: true, first.Add(-time.Millisecond): false, last.Add(time.Millisecond): false} {
				if same := label(at, unit) == label(now, unit); same != inside {
					t.Fatalf("%s /%c is from %s to %s, but %s is in it: %v", now, unit, first, last, at, same)
				}
			}
		}
	}
}

// instantAt returns an instant in the zone of now.
func instantAt(t *testing.T, text string, now time.Time, end End) time.Time {
	t.Helper()
	at, err := Instant(text, now, end)
	if err != nil {
		t.Fatal(err)
	}
	if at.Location() != time.UTC || at.Nanosecond()%1e6 != 0 {
		t.Fatalf("%s is %s: not in UTC, or more exact than a millisecond", text, at)
	}
	return at.In(now.Location())
}

// A date is the span of all instants that are written with the same digits. A year and
// a month alone are their first day, as in Elasticsearch.
func TestADateIsTheSpanOfItsDigits(t *testing.T) {
	random := rand.New(rand.NewPCG(42, 0))
	const whole = "2006-01-02T15:04:05.000"
	for _, layout := range []string{"2006-01-02", "2006-01-02T15", "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02T15:04:05.000"} {
		for range 1000 {
			at := time.UnixMilli(random.Int64N(60 * 365 * 24 * 3600 * 1000)).UTC()
			text := at.Format(layout)
			first, last := instantAt(t, text, at, First), instantAt(t, text, at, Last)
			for _, inside := range []time.Time{first, last, at} {
				if inside.Format(layout) != text || inside.Before(first) || inside.After(last) {
					t.Fatalf("%s is from %s to %s", text, first.Format(whole), last.Format(whole))
				}
			}
			if first.Add(-time.Millisecond).Format(layout) == text || last.Add(time.Millisecond).Format(layout) == text {
				t.Fatalf("%s is from %s to %s, which is not all of it", text, first.Format(whole), last.Format(whole))
			}
		}
	}
	for text, day := range map[string]string{"2024": "2024-01-01", "2024-02": "2024-02-01"} {
		for _, end := range []End{First, Last} {
			if got, want := instantAt(t, text, time.Now().UTC(), end), instantAt(t, day, time.Now().UTC(), end); !got.Equal(want) {
				t.Errorf("%s is %s, and %s is %s", text, got, day, want)
			}
		}
	}
}

// Adding months keeps the day and the time, or ends at the last day of a shorter month;
// taking them away again ends at the same day or earlier.
func TestMonthsKeepTheDay(t *testing.T) {
	random := rand.New(rand.NewPCG(43, 0))
	for range 5000 {
		now := time.UnixMilli(random.Int64N(60 * 365 * 24 * 3600 * 1000)).UTC()
		count := random.IntN(60)
		got := instantAt(t, fmt.Sprintf("now+%dM", count), now, First)
		month := int(now.Month()) - 1 + count
		lastDay := time.Date(now.Year(), time.Month(month+2), 0, 0, 0, 0, 0, time.UTC).Day()
		want := time.Date(now.Year(), time.Month(month+1), min(now.Day(), lastDay), now.Hour(), now.Minute(), now.Second(), now.Nanosecond(), time.UTC)
		if !got.Equal(want) {
			t.Fatalf("%s+%dM is %s, want %s", now, count, got, want)
		}
		back := instantAt(t, fmt.Sprintf("now+%dM-%[1]dM", count), now, First)
		if back.After(now) || back.Month() != now.Month() || now.Day() <= 28 && !back.Equal(now) {
			t.Fatalf("%s+%dM-%[2]dM is %s", now, count, back)
		}
		if years := instantAt(t, fmt.Sprintf("now-%dy", count), now, First); !years.Equal(instantAt(t, fmt.Sprintf("now-%dM", 12*count), now, First)) {
			t.Fatalf("%s-%dy is %s", now, count, years)
		}
	}
}

// Steps of hours, minutes and seconds are exact, also over a change of clocks; steps of
// days and weeks keep the local time.
func TestStepsOverAChangeOfClocks(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, now := range []time.Time{
		time.Date(2026, 3, 28, 12, 30, 0, 0, berlin), time.Date(2026, 10, 24, 12, 30, 0, 0, berlin), time.Date(2026, 7, 1, 0, 0, 0, 0, berlin),
	} {
		for text, want := range map[string]time.Time{
			"now+24h":    now.Add(24 * time.Hour),
			"now+1440m":  now.Add(24 * time.Hour),
			"now+86400s": now.Add(24 * time.Hour),
			"now-24H":    now.Add(-24 * time.Hour),
			"now+1d":     now.AddDate(0, 0, 1),
			"now+d":      now.AddDate(0, 0, 1),
			"now+1w":     now.AddDate(0, 0, 7),
			"now-2w":     now.AddDate(0, 0, -14),
			"now+1d-24h": now.AddDate(0, 0, 1).Add(-24 * time.Hour),
		} {
			if got := instantAt(t, text, now, First); !got.Equal(want) {
				t.Errorf("%s of %s is %s, want %s", text, now, got, want)
			}
		}
	}
}

// The offset of a date counts, and the zone of now does not.
func TestOffsetsCount(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for minutes := -18 * 60; minutes <= 18*60; minutes += 17 {
		zone := time.FixedZone("", minutes*60)
		at := time.Date(2026, 5, 4, 3, 2, 1, 0, zone)
		for _, layout := range []string{"2006-01-02T15:04:05-07:00", "2006-01-02T15:04:05-0700"} {
			if got := instantAt(t, at.Format(layout), time.Now().In(berlin), First); !got.Equal(at) {
				t.Errorf("%s is %s", at.Format(layout), got)
			}
		}
	}
}

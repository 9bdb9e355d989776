package kql

import "testing"

// The texts that Elasticsearch 8.19 accepts and refuses for a field of type date
// with its default format.
func TestIsDate(t *testing.T) {
	for _, good := range []string{
		"2026", "2026-01", "2026-01-31", "2026-01-31T10", "2026-01-31T10:00", "2026-01-31T10:00:59",
		"2026-01-31T10:00:00.123456789Z", "2026-01-31T10:00:00,5Z", "2026-01-31T10Z", "2026-01-31T10:00+02", "2026-01-31T10:00+0200",
		"2026-01-31T10:00-02:00", "2026-01-31T10:00+18:00", "2026-01-31T10:00-1800", "2026-01-31T10:00+02:59", "9223372036854775807", "now-2147483647s", "1767261600000", "-5", "20260101",
		"now", "now-1h", "now-1h/d", "now/d-1h", "now-1d-2h", "now-d", "now+1w", "now-1M", "now-1y", "now-1H",
		"2026-01-31||+1d", "2026-01-31||/M", "2026-01-31||", "2026-01-31T10:00Z||-1h", "1767261600000||-1d",
	} {
		if !isDate(good) {
			t.Errorf("%s is a date", good)
		}
	}
	for _, bad := range []string{
		"", "yesterday", "NOW", "2026-1-1", "2026-02-30", "2026-13-01", "2026-01-31Z", "2026-01-31 10:00", "2026-01-31T24:00", "2026-01-31T10:60",
		"10000-01-01", "24:00", "2026-W01-1", "now-", "now+1", "now-1ms", "now-1.5h", "now/2d", "now - 1h", "||", "x||+1d", "2026-01-31||x",
		"2026-01-31T10:00+28:00", "2026-01-31T10:00+18:01", "2026-01-31T10:00-19", "2026-01-31T10:00+02:60", "2026-01-31T10:00+0260",
		"9223372036854775808", "+5", "now-2147483648s", "2026-01-31||+2147483648d", "2026-01-31|",
	} {
		if isDate(bad) {
			t.Errorf("%s is no date", bad)
		}
	}
}

func TestIsNumber(t *testing.T) {
	for text, want := range map[string]bool{
		"0": true, "-1": true, "+1.5": true, ".5": true, "1e6": true, "007": true,
		"": false, "x": false, "1 2": false, "0x10": false, "1_000": false, "NaN": false, "Inf": false, "1,5": false,
	} {
		if isNumber(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

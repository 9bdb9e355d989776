package quantity

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "0d": 0, "1ns": 1, "1.5s": 1500 * time.Millisecond, "1m30s": 90 * time.Second, "2h": 2 * time.Hour,
		"30d": 30 * day, "1d12h": 36 * time.Hour, "1d0.5s": day + 500*time.Millisecond, "-1s": -time.Second, "65535d": 65535 * day,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "1", "d", "1.5d", "-1d", "+1d", "1 d", "65536d", "1dd", "1d1", "1d1d", "1w", "1y", "1h d", "soon"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

// A duration is written with one unit, the largest that it is a whole number of.
func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		day: "1d", 25 * time.Hour: "25h", time.Hour: "1h", 61 * time.Minute: "61m", time.Minute: "1m", time.Second: "1s",
		1001 * time.Millisecond: "1001ms", time.Microsecond: "1micros", 1500: "1500ns", -day: "-1d",
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int{
		"0": 0, "5": 5, "5B": 5, "5 B": 5, "5kB": 5000, "5KB": 5000, "5KiB": 5120, "5MB": 5e6, "5MiB": 5 << 20, "5 MiB": 5 << 20,
		"5GB": 5e9, "5GiB": 5 << 30, "999999999": 999999999, "007": 7,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "B", "-1", "+1", "1.5MB", "5mb", "5M", "5TiB", "5  MB", "5MB ", " 5", "1000000000", "0x10", "1e6"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

// The bounds in a message are written so that they can be copied into the file.
func TestFormatBytesIsReadBack(t *testing.T) {
	for n, want := range map[int]string{1: "1", 1000: "1000", 1024: "1KiB", 64 << 10: "64KiB", 1<<20 + 1024: "1025KiB", 100 << 20: "100MiB"} {
		got := FormatBytes(n)
		if back, err := ParseBytes(got); got != want || err != nil || back != n {
			t.Errorf("%d is written as %s (want %s) and read as %d, %v", n, got, want, back, err)
		}
	}
}

package config

import (
	"math"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "0d": 0, "1ns": 1, "1.5s": 1500 * time.Millisecond, "1m30s": 90 * time.Second, "2h": 2 * time.Hour,
		"30d": 30 * day, "1d12h": 36 * time.Hour, "1d0.5s": day + 500*time.Millisecond, "-1s": -time.Second, "65535d": 65535 * day,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "1", "d", "1.5d", "-1d", "+1d", "1 d", "65536d", "1dd", "1d1", "1d1d", "1w", "1y", "1h d", "soon"} {
		if got, err := parseDuration(text); err == nil {
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
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "B", "-1", "+1", "1.5MB", "5mb", "5M", "5TiB", "5  MB", "5MB ", " 5", "1000000000", "0x10", "1e6"} {
		if got, err := parseBytes(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

// The bounds in a message are written so that they can be copied into the file.
func TestFormatBytesIsReadBack(t *testing.T) {
	for n, want := range map[int]string{1: "1", 1000: "1000", 1024: "1KiB", 64 << 10: "64KiB", 1<<20 + 1024: "1025KiB", 100 << 20: "100MiB"} {
		got := formatBytes(n)
		if back, err := parseBytes(got); got != want || err != nil || back != n {
			t.Errorf("%d is written as %s (want %s) and read as %d, %v", n, got, want, back, err)
		}
	}
}

func TestBoundsAreInclusive(t *testing.T) {
	accept := func(what, s string, err error) {
		if err != nil {
			t.Errorf("%s refuses %s: %v", what, s, err)
		}
	}
	reject := func(what, s string, err error) {
		if err == nil {
			t.Errorf("%s accepts %s", what, s)
		}
	}
	for _, s := range []string{"1", "10"} {
		_, err := wholeNumber(1, 10)(s)
		accept("a whole number from 1 to 10", s, err)
		_, err = number(1, 10)(s)
		accept("a number from 1 to 10", s, err)
		_, err = duration(time.Second, 10*time.Second)(s + "s")
		accept("a duration from 1s to 10s", s+"s", err)
		_, err = size(1, 10)(s)
		accept("a size from 1 to 10", s, err)
		_, err = boundedText(1, 10)("0123456789"[:len(s)])
		accept("text of 1 to 10 bytes", s, err)
	}
	for _, s := range []string{"0", "11", "-5", "", "x", "9223372036854775808"} {
		_, err := wholeNumber(1, 10)(s)
		reject("a whole number from 1 to 10", s, err)
		_, err = number(1, 10)(s)
		reject("a number from 1 to 10", s, err)
		_, err = duration(time.Second, 10*time.Second)(s + "s")
		reject("a duration from 1s to 10s", s+"s", err)
		_, err = size(1, 10)(s)
		reject("a size from 1 to 10", s, err)
	}
	for _, s := range []string{"NaN", "Inf", "-Inf", "10.0000001", "0.9999999"} {
		_, err := number(1, 10)(s)
		reject("a number from 1 to 10", s, err)
	}
	for _, s := range []string{"", "01234567890", "\xff", "a\x00b"} {
		_, err := boundedText(1, 10)(s)
		reject("text of 1 to 10 bytes", s, err)
	}
}

// Text is measured in bytes, as AMQP's short strings are.
func TestNamesAreMeasuredInBytes(t *testing.T) {
	if _, err := boundedText(1, 4)("äö"); err != nil {
		t.Error(err)
	}
	if _, err := boundedText(1, 4)("äöü"); err == nil {
		t.Error("six bytes are accepted as four")
	}
}

func TestCountOrNone(t *testing.T) {
	for text, want := range map[string]int{"0": -1, "1": 1, "9": 9} {
		if got, err := countOrOff(9)(text); err != nil || got != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"-1", "10", "none", ""} {
		if got, err := countOrOff(9)(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

func TestRetention(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "1h": time.Hour, "90m": 90 * time.Minute, "3601s": 3601 * time.Second, "36500d": 36500 * day,
	} {
		if got, err := retentionPeriod(text); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "30", "59m59s", "-1h", "-1d", "36501d", "1h0.5s", "forever"} {
		if got, err := retentionPeriod(text); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
	if math.MaxInt64/int64(day) < 36500 {
		t.Error("the longest retention does not fit into a duration")
	}
}

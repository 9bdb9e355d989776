package config

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/retry"
)

const day = 24 * time.Hour

// duration parses a duration such as 1.5s or 1m30s, within bounds.
func duration(low, high time.Duration) func(string) (time.Duration, error) {
	return func(s string) (time.Duration, error) {
		d, err := parseDuration(s)
		if err != nil || d < low || d > high {
			return 0, fmt.Errorf("expected a duration such as 10s, from %s to %s", FormatDuration(low), FormatDuration(high))
		}
		return d, nil
	}
}

// queueTTL parses a TTL of a RabbitMQ queue, which has 32 bits of milliseconds.
func queueTTL(s string) (time.Duration, error) {
	d, err := duration(time.Millisecond, retry.MaxDelay)(s)
	if err != nil || d%time.Millisecond != 0 {
		return 0, errors.New("expected a duration such as 10s, in whole milliseconds, from 1ms to 4294967295ms (49 days)")
	}
	return d, nil
}

func retentionPeriod(s string) (time.Duration, error) {
	d, err := parseDuration(s)
	if err != nil || d != 0 && d < time.Hour || d > 36500*day || d%time.Second != 0 {
		return 0, errors.New("expected a duration such as 30d or 12h, of at least 1h, or 0 for ever")
	}
	return d, nil
}

// ParseDuration parses a duration as settings have them, with days: 90d, 1d12h, 15m.
func ParseDuration(s string) (time.Duration, error) { return parseDuration(s) }

// parseDuration parses a duration of Go with an optional number of days before it.
func parseDuration(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		return time.ParseDuration(s)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil || rest == "" {
		return time.Duration(n) * day, err
	}
	d, err := time.ParseDuration(rest)
	return time.Duration(n)*day + d, err
}

// FormatDuration writes a duration with one unit, as Elasticsearch reads it too:
// 30d, 12h, 90m, 1500ms.
func FormatDuration(d time.Duration) string {
	units := []struct {
		size time.Duration
		name string
	}{
		{day, "d"},
		{time.Hour, "h"},
		{time.Minute, "m"},
		{time.Second, "s"},
		{time.Millisecond, "ms"},
		{time.Microsecond, "micros"},
	}
	for _, unit := range units {
		if d != 0 && d%unit.size == 0 {
			return fmt.Sprintf("%d%s", d/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%dns", d)
}

// size parses a number of bytes such as 5MiB, 5MB or 5242880, within bounds.
func size(low, high int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := parseBytes(s)
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("expected a size such as 5MiB, from %s to %s", formatBytes(low), formatBytes(high))
		}
		return n, nil
	}
}

func parseBytes(s string) (int, error) {
	parts := regexp.MustCompile(`^([0-9]{1,9}) ?([a-zA-Z]*)$`).FindStringSubmatch(s)
	if parts == nil {
		return 0, errors.New("not a size")
	}
	units := map[string]int{"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
	unit, known := units[parts[2]]
	if !known {
		return 0, errors.New("not a unit")
	}
	n, err := strconv.Atoi(parts[1])
	return n * unit, err
}

func formatBytes(n int) string {
	switch {
	case n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	default:
		return strconv.Itoa(n)
	}
}

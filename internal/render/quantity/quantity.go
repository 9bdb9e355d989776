// Package quantity parses and formats durations and sizes as settings have them.
package quantity

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// ParseDuration parses a duration of Go with an optional number of days before it: 90d, 1d12h,
// 15m.
func ParseDuration(s string) (time.Duration, error) {
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

// ParseBytes parses a number of bytes such as 5MiB, 5MB or 5242880.
func ParseBytes(s string) (int, error) {
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

// FormatBytes writes a number of bytes that ParseBytes reads.
func FormatBytes(n int) string {
	switch {
	case n%(1<<20) == 0:
		return fmt.Sprintf("%dMiB", n>>20)
	case n%(1<<10) == 0:
		return fmt.Sprintf("%dKiB", n>>10)
	default:
		return strconv.Itoa(n)
	}
}

package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/render/quantity"
	"github.com/watershipmq/watership/retry"
)

const day = 24 * time.Hour

// duration parses a duration such as 1.5s or 1m30s, within bounds.
func duration(low, high time.Duration) func(string) (time.Duration, error) {
	return func(s string) (time.Duration, error) {
		d, err := quantity.ParseDuration(s)
		if err != nil || d < low || d > high {
			return 0, fmt.Errorf("expected a duration such as 10s, from %s to %s", quantity.FormatDuration(low), quantity.FormatDuration(high))
		}
		return d, nil
	}
}

// ratePerTime parses a number in a time, such as 10/s, and returns it in a second.
func ratePerTime(s string) (float64, error) {
	number, unit, _ := strings.Cut(s, "/")
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	per, known := map[string]float64{"s": 1, "m": 60, "h": 3600}[strings.TrimSpace(unit)]
	if err != nil || !known || !(n/per >= 1.0/3600) || n/per > 10_000 { // NaN is no number
		return 0, errors.New("expected a number in a time such as 10/s, 30/m or 100/h, from 1/h to 10000/s")
	}
	return n / per, nil
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
	d, err := quantity.ParseDuration(s)
	if err != nil || d != 0 && d < time.Hour || d > 36500*day || d%time.Second != 0 {
		return 0, errors.New("expected a duration such as 30d or 12h, of at least 1h, or 0 for ever")
	}
	return d, nil
}

// size parses a number of bytes such as 5MiB, 5MB or 5242880, within bounds.
func size(low, high int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := quantity.ParseBytes(s)
		if err != nil || n < low || n > high {
			return 0, fmt.Errorf("expected a size such as 5MiB, from %s to %s", quantity.FormatBytes(low), quantity.FormatBytes(high))
		}
		return n, nil
	}
}

package kql

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The dates that Elasticsearch parses with its default format,
// strict_date_optional_time||epoch_millis, and its date math. Its rarest forms (a
// time after a year alone, years of five digits) are not supported.
var (
	instant  = regexp.MustCompile(`^(?:(\d{4}(?:-\d\d){0,2})|(\d{4}-\d\d-\d\dT\d\d(?::\d\d(?::\d\d(?:[.,]\d{1,9})?)?)?)(Z|[+-]\d\d(?::?\d\d)?)?)$`)
	dateMath = regexp.MustCompile(`^(?:[+-]\d*[yMwdhHms]|/[yMwdhHms])*$`)
	amount   = regexp.MustCompile(`\d+`)
)

// isDate reports whether text is an ISO 8601 date or time, milliseconds since
// 1970, or date math: now-1h, now-1d/d, 2026-01-31||+1M.
func isDate(text string) bool {
	if math, ok := strings.CutPrefix(text, "now"); ok {
		return isDateMath(math)
	}
	anchor, math, _ := strings.Cut(text, "||")
	return isDateMath(math) && (isEpoch(anchor) || isInstant(anchor))
}

// isDateMath reports whether text is date math. The amounts in it have at most 32
// bits.
func isDateMath(text string) bool {
	for _, digits := range amount.FindAllString(text, -1) {
		if _, err := strconv.ParseInt(digits, 10, 32); err != nil {
			return false
		}
	}
	return dateMath.MatchString(text)
}

func isEpoch(text string) bool {
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil && text[0] != '+'
}

// isInstant reports whether text is an existing date or time, so no 30th of
// February.
func isInstant(text string) bool {
	parts := instant.FindStringSubmatch(text)
	if parts == nil {
		return false
	}
	const layout = "2006-01-02T15:04:05"
	plain, zone := parts[1]+parts[2], parts[3]
	_, err := time.Parse(layout[:min(len(plain), len(layout))], plain)
	return err == nil && isOffset(zone)
}

// isOffset reports whether zone is an offset that Java accepts: up to 18 hours.
func isOffset(zone string) bool {
	const farthest = 18 * 60
	hours, minutes := offsetOf(zone)
	return minutes < 60 && hours*60+minutes <= farthest
}

// offsetOf parses Z, +02, +0200 or +02:00, and ignores the sign.
func offsetOf(zone string) (hours, minutes int) {
	digits := strings.ReplaceAll(strings.TrimLeft(zone, "+-Z"), ":", "")
	if digits == "" {
		return 0, 0
	}
	hours, _ = strconv.Atoi(digits[:2])
	minutes, _ = strconv.Atoi("0" + digits[2:])
	return hours, minutes
}

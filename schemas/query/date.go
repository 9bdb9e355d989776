package query

import (
	"regexp"
	"strings"
	"time"
)

// The dates that Elasticsearch reads with its default format,
// strict_date_optional_time||epoch_millis, and its date math. Its rarest forms
// (a time after a year alone, years of five digits) are left out.
var (
	epoch    = regexp.MustCompile(`^-?\d+$`)
	instant  = regexp.MustCompile(`^(?:(\d{4}(?:-\d\d){0,2})|(\d{4}-\d\d-\d\dT\d\d(?::\d\d(?::\d\d(?:[.,]\d{1,9})?)?)?)(?:Z|[+-]\d\d(?::?\d\d)?)?)$`)
	dateMath = regexp.MustCompile(`^(?:[+-]\d*[yMwdhHms]|/[yMwdhHms])*$`)
)

// isDate reports whether text is an ISO 8601 date or time, milliseconds since
// 1970, or date math: now-1h, now-1d/d, 2026-01-31||+1M.
func isDate(text string) bool {
	if math, ok := strings.CutPrefix(text, "now"); ok {
		return dateMath.MatchString(math)
	}
	anchor, math, _ := strings.Cut(text, "||")
	return dateMath.MatchString(math) && (epoch.MatchString(anchor) || isInstant(anchor))
}

// isInstant also knows that there is no 30th of February.
func isInstant(text string) bool {
	parts := instant.FindStringSubmatch(text)
	if parts == nil {
		return false
	}
	const layout = "2006-01-02T15:04:05"
	plain := parts[1] + parts[2]
	_, err := time.Parse(layout[:min(len(plain), len(layout))], plain)
	return err == nil
}

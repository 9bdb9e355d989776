// Package wording formats numbers, durations and arguments in sentences for people.
package wording

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Plural formats a number with the noun that it counts.
func Plural(n int, what string) string {
	if n == 1 {
		return fmt.Sprintf("%d %s", n, what)
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// PluralVerb is Plural with the verb, whose forms are those after one and after several.
func PluralVerb(n int, what, one, several string) string {
	if n == 1 {
		return Plural(n, what) + " " + one
	}
	return Plural(n, what) + " " + several
}

// Percent formats a part of several things. It is 0 % or 100 % for none or all of them alone.
func Percent(part, of int) string {
	switch percent := 100 * float64(part) / float64(max(of, 1)); {
	case part > 0 && percent < 1:
		return "<1 %"
	case part < of && percent > 99:
		return ">99 %"
	default:
		return strconv.Itoa(int(percent+0.5)) + " %"
	}
}

// Quoted quotes an argument for a shell, if it needs quotes.
func Quoted(argument string) string {
	if argument != "" && !strings.ContainsAny(argument, " \t\r\n'\"\\$`&|;<>()*?[]#~!{}") {
		return argument
	}
	return "'" + strings.ReplaceAll(argument, "'", `'\''`) + "'"
}

// OneLine applies SafeRune to a text, which has no line breaks then.
func OneLine(text string) string { return strings.Map(SafeRune, strings.ToValidUTF8(text, "\ufffd")) }

// SafeRune replaces control characters by spaces. It also replaces the characters that
// change the direction of the text that follows, and so could make one value look like
// another.
func SafeRune(r rune) rune {
	switch {
	case unicode.IsControl(r):
		return ' '
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Zl, r), unicode.Is(unicode.Zp, r):
		return '\ufffd'
	}
	return r
}

// Duration rounds to two units at most, such as 1m 20s.
func Duration(d time.Duration) string {
	if d < 0 {
		return "-" + Duration(-d)
	}
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return "0 s"
	case d < time.Millisecond:
		return strconv.FormatInt(d.Microseconds(), 10) + " µs"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case d < time.Minute:
		return strings.TrimSuffix(strconv.FormatFloat(d.Seconds(), 'f', 1, 64), ".0") + " s"
	case d < time.Hour:
		return twoUnits(d, time.Minute, "m", time.Second, "s")
	case d < day:
		return twoUnits(d, time.Hour, "h", time.Minute, "m")
	}
	return twoUnits(d, day, "d", time.Hour, "h")
}

func twoUnits(d, large time.Duration, largeName string, small time.Duration, smallName string) string {
	text := fmt.Sprintf("%d%s", d/large, largeName)
	if rest := d % large / small; rest > 0 {
		text += fmt.Sprintf(" %d%s", rest, smallName)
	}
	return text
}

// Rate writes a number a second in the shortest unit of time in which it is at least one, such as 4.2/s or 12/h; zero is 0/s.
func Rate(perSecond float64) string {
	number, unit := perSecond, "s"
	for _, longer := range []struct {
		seconds float64
		name    string
	}{{60, "min"}, {3600, "h"}, {86400, "day"}} {
		if number >= 1 || perSecond == 0 {
			break
		}
		number, unit = perSecond*longer.seconds, longer.name
	}
	digits := 0
	if number < 10 {
		digits = 1
	}
	text := strconv.FormatFloat(number, 'f', digits, 64)
	return strings.TrimSuffix(text, ".0") + "/" + unit
}

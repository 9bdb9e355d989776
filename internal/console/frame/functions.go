package frame

import (
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/render/columns"
	"github.com/watershipmq/watership/internal/render/markdown"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/render/wording"
)

// functions are the functions of templates.
func functions() template.FuncMap {
	return template.FuncMap{
		"count":      func(n any) (string, error) { return FormatCount(n) },
		"beyond":     func(n, limit int) int { return max(n-limit, 0) },
		"duration":   wording.Duration,
		"seconds":    func(s float64) string { return wording.Duration(Seconds(s)) },
		"bytes":      FormatBytes,
		"plural":     Plural,
		"percent":    wording.Percent,
		"maxReason":  func() int { return reason.Max },
		"maxReading": func() int { return access.MaxReason },
		"oneline":    func(text any) string { return wording.OneLine(fmt.Sprint(text)) },
		"lines":      formatLines,
		"dict":       dict,
		"join":       strings.Join,
		"mistake":    newMistake,
		"anchor":     markdown.Anchor,

		"messageURL": MessageURL,
	}
}

// MessageURL returns the address of the page of a message, by any of its ids, or the address of
// a search for an id that cannot be the name of a page.
func MessageURL(id string) string {
	if !NamesPage(id) {
		return "/messages?" + url.Values{"q": {kql.FieldIs("message.id", id).String()}, "since": {AllTime}}.Encode()
	}
	return "/messages/" + url.PathEscape(id)
}

// NamesPage reports whether the page of a message can have the id as its name. Browsers resolve
// dots even if they are escaped, and the others are pages below /messages.
func NamesPage(id string) bool {
	switch id {
	case ".", "..", "validate", "export.csv", "export.ndjson":
		return false
	}
	return true
}

// Seconds returns a duration of the API.
func Seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

// formatLines applies wording.SafeRune to each line of a text.
func formatLines(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return wording.SafeRune(r)
	}, strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\r\n", "\n"))
}

// mistake is a query in parts: before, at and after the place that cannot be read.
type mistake struct{ Before, At, After string }

func newMistake(p *problem.Position) mistake {
	at := min(max(p.Offset, 0), len(p.Query))
	before, rest := p.Query[:at], p.Query[at:]
	if rest == "" {
		return mistake{before, " ", ""}
	}
	_, first := utf8.DecodeRuneInString(rest)
	end := strings.IndexAny(rest[first:], " \t\r\n():")
	if end < 0 {
		return mistake{before, rest, ""}
	}
	return mistake{before, rest[:first+end], rest[first+end:]}
}

// dict makes a map of names and values, as the argument of a part of a page.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("dict: a name has no value")
	}
	made := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		name, is := pairs[i].(string)
		if !is {
			return nil, fmt.Errorf("dict: %v is no name", pairs[i])
		}
		made[name] = pairs[i+1]
	}
	return made, nil
}

func wholeNumber(n any) (int64, error) {
	switch n := n.(type) {
	case int:
		return int64(n), nil
	case int64:
		return n, nil
	case *int64:
		return *n, nil
	}
	return 0, fmt.Errorf("%v is no whole number", n)
}

// FormatCount groups the digits of a number by thousands.
func FormatCount(n any) (string, error) {
	number, err := wholeNumber(n)
	digits := strconv.FormatInt(number, 10)
	sign := ""
	if number < 0 {
		sign, digits = "-", digits[1:]
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits, err
}

func Plural(n any, what string) (string, error) {
	text, err := FormatCount(n)
	if text == "1" {
		return "1 " + what, err
	}
	return text + " " + what + "s", err
}

func FormatBytes(n any) (string, error) {
	number, err := wholeNumber(n)
	switch {
	case number < 1<<10:
		return fmt.Sprintf("%d B", number), err
	case number < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(number)/(1<<10)), err
	}
	return fmt.Sprintf("%.1f MiB", float64(number)/(1<<20)), err
}

// Moment returns a time element: the time in the browser's zone, and in UTC as its title.
func (v View) Moment(t any) (template.HTML, error) {
	var at time.Time
	switch t := t.(type) {
	case time.Time:
		at = t
	case *time.Time:
		if t != nil {
			at = *t
		}
	default:
		return "", fmt.Errorf("%v is no time", t)
	}
	if at.IsZero() {
		return "", nil
	}
	return v.element(at, layoutFull, v.ago(at)), nil
}

// Layouts of times; showTimes in console.js has the same.
const (
	layoutFull        = "2006-01-02 15:04:05.000"
	layoutSecond      = "2006-01-02 15:04:05"
	layoutClock       = "2 Jan 15:04"
	layoutClockSecond = "2 Jan 15:04:05"
)

// element returns a time element in the browser's zone, with the time in UTC as its title. Before
// the server knows the zone, the element is in UTC, says so, and has an attribute for the script,
// which shows it in the zone of the browser.
func (v View) element(at time.Time, layout, more string) template.HTML {
	utc, asked := at.UTC(), ""
	if v.inUTC() {
		asked = ` data-utc="` + layout + `"`
	}
	title := utc.Format(layoutFull) + " UTC"
	if more != "" {
		title += ", " + more
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s"%s>%s</time>`, utc.Format(time.RFC3339Nano), title, asked, v.text(at, layout)))
}

// inUTC reports whether times are in UTC since the zone of the browser is not known here.
func (v View) inUTC() bool { return v.Zone == time.UTC }

// text returns a time in the browser's zone.
func (v View) text(at time.Time, layout string) string {
	if v.inUTC() {
		layout += " UTC"
	}
	return at.In(v.Zone).Format(layout)
}

// Local returns a time in the browser's zone, where an element cannot be.
func (v View) Local(at time.Time) string { return v.text(at, layoutSecond) }

// Second returns a time element to the second.
func (v View) Second(at time.Time) template.HTML { return v.element(at, layoutSecond, "") }

// ago says how long before or after now a time is.
func (v View) ago(t time.Time) string {
	switch d := v.Now.Sub(t); {
	case d >= 0 && d < time.Second:
		return "now"
	case d >= 0:
		return wording.Duration(d.Truncate(time.Second)) + " ago"
	}
	return "in " + wording.Duration(t.Sub(v.Now).Truncate(time.Second))
}

// Ago returns a time element with the time since then, and the times in its title.
func (v View) Ago(at time.Time) template.HTML {
	utc := at.UTC()
	title := utc.Format(layoutFull) + " UTC"
	if !v.inUTC() {
		title = v.text(at, layoutFull) + " (" + title + ")"
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s">%s</time>`, utc.Format(time.RFC3339Nano), title, v.ago(at)))
}

// Clock returns a time as axes and tables show it.
func (v View) Clock(at time.Time) template.HTML { return v.element(at, clockLayout(at), "") }

// ClockText is Clock where an element cannot be.
func (v View) ClockText(at time.Time) string { return v.text(at, clockLayout(at)) }

func clockLayout(at time.Time) string {
	if at.Second() != 0 {
		return layoutClockSecond
	}
	return layoutClock
}

// Clock formats times in texts, in a zone.
func Clock(zone *time.Location) columns.Clock {
	return View{Zone: zone}.Local
}

// Package statuspage has what pages for browsers say about the system as a whole: events
// over time, routes and their retry policies, open failures, the state of the server, and
// the findings of doctor.
package statuspage

import (
	"net/url"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/schemas"
)

// Histogram shows events over time, with a row of bars for each action.
type Histogram struct {
	Steps  []Step
	Length time.Duration // of each step
	Rows   []Row
}

// Step is a step of time with the counts of each row.
type Step struct {
	Begin, End time.Time
	Counts     []int64
	Link       string // to its messages
}

// Row has the bars of an action.
type Row struct {
	Action, Name string
	Total, Most  int64 // Most is the count of the highest bar
	Link         string
	Bars         []Bar
}

// Bar is a bar of a Row that is not empty. The chart is as wide as there are steps, and
// Height high.
type Bar struct {
	X          int
	Y, Height  float64
	Count      int64
	Begin, End time.Time
	Link       string
}

const (
	// MaxSteps is the greatest number of steps: of 15 s in 15 minutes, of 12 h in 30 days.
	MaxSteps = 64

	height    = 40  // of a chart
	lowestBar = 1.5 // that can be seen
)

// NewHistogram makes a histogram of counts by action in a period, which is part of the URL of
// a page.
func NewHistogram(counts messages.Values, period url.Values) Histogram {
	h := Histogram{Length: time.Duration(counts.Step * float64(time.Second))}
	for _, value := range counts.Values {
		begin, _ := time.Parse(time.RFC3339, value.Value) // the API writes it
		end := begin.Add(h.Length)
		h.Steps = append(h.Steps, Step{Begin: begin, End: end, Link: linkBetween(begin, end, "")})
	}
	for _, row := range []struct {
		action schemas.Action
		name   string
	}{{schemas.Published, "Published"}, {schemas.Handled, "Handled"}, {schemas.RetryScheduled, "Retried"}, {schemas.Poisoned, "Poisoned"}} {
		query := "action: " + string(row.action)
		at := slices.IndexFunc(counts.Series, func(s messages.Series) bool { return s.Value == string(row.action) })
		if at >= 0 {
			h.add(Row{Action: string(row.action), Name: row.name, Link: link(period, query)}, counts.Series[at].Counts, query)
		}
	}
	return h
}

func (h *Histogram) add(row Row, counts []int64, query string) {
	if len(counts) > 0 {
		row.Most = slices.Max(counts)
	}
	for i, n := range counts {
		row.Total += n
		step := &h.Steps[i]
		if step.Counts = append(step.Counts, n); n == 0 {
			continue
		}
		high := max(float64(n)/float64(row.Most)*height, lowestBar)
		row.Bars = append(row.Bars, Bar{
			X: i, Y: height - high, Height: high, Count: n, Begin: step.Begin, End: step.End, Link: linkBetween(step.Begin, step.End, query),
		})
	}
	h.Rows = append(h.Rows, row)
}

// Total is the number of events of all rows.
func (h Histogram) Total() (n int64) {
	for _, row := range h.Rows {
		n += row.Total
	}
	return n
}

// Begin is the begin of the first step.
func (h Histogram) Begin() time.Time { return h.Steps[0].Begin }

// End is the end of the last step.
func (h Histogram) End() time.Time { return h.Steps[len(h.Steps)-1].End }

func linkBetween(begin, end time.Time, query string) string {
	return link(url.Values{"from": {begin.Format(time.RFC3339)}, "to": {end.Format(time.RFC3339)}}, query)
}

// link returns a link to the messages of a period that match a query.
func link(period url.Values, query string) string {
	values := url.Values{}
	for name := range period {
		values.Set(name, period.Get(name))
	}
	if query != "" {
		values.Set("q", query)
	}
	return "/messages?" + values.Encode()
}

package console

import (
	"net/url"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/api"
	"github.com/watershipmq/watership/internal/console/frame"
)

// histogram shows events over time, with a row of bars for each action.
type histogram struct {
	Steps  []step
	Length time.Duration // of each step
	Rows   []histogramRow
}

// step is a step of time with the counts of each row.
type step struct {
	Begin, End time.Time
	Counts     []int64
	Link       string // to its messages
}

// histogramRow has the bars of an action.
type histogramRow struct {
	Action, Name string
	Total, Most  int64 // Most is the count of the highest bar
	Link         string
	Bars         []bar
}

// bar is a bar of a histogramRow that is not empty; its chart is as wide as there are steps
// and chartHeight high.
type bar struct {
	X          int
	Y, Height  float64
	Count      int64
	Begin, End time.Time
	Link       string
}

const (
	chartHeight   = 40
	lowestBar     = 1.5 // that can be seen
	histogramSize = 64  // steps at most: of 15 s in 15 minutes, of 12 h in 30 days
)

// actionName is the name of an action for people.
func actionName(action string) string {
	switch action {
	case "published":
		return "Published"
	case "handled":
		return "Handled"
	case "retry_scheduled":
		return "Retried"
	case "poisoned":
		return "Poisoned"
	}
	return action
}

func newHistogram(counts api.Values, f frame.Filter, actions ...string) histogram {
	h := histogram{Length: time.Duration(counts.Step * float64(time.Second))}
	for _, value := range counts.Values {
		begin, _ := time.Parse(time.RFC3339, value.Value) // the API writes it
		end := begin.Add(h.Length)
		h.Steps = append(h.Steps, step{Begin: begin, End: end, Link: messagesBetween(begin, end, f.Query)})
	}
	for _, action := range actions {
		at := slices.IndexFunc(counts.Series, func(s api.Series) bool { return s.Value == action })
		if at < 0 {
			continue
		}
		h.add(counts.Series[at], f)
	}
	return h
}

func (h *histogram) add(series api.Series, f frame.Filter) {
	query := "action: " + series.Value
	row := histogramRow{Action: series.Value, Name: actionName(series.Value), Link: f.With("/messages", query)}
	if len(series.Counts) > 0 {
		row.Most = slices.Max(series.Counts)
	}
	for i, n := range series.Counts {
		row.Total += n
		s := &h.Steps[i]
		if s.Counts = append(s.Counts, n); n == 0 {
			continue
		}
		height := max(float64(n)/float64(row.Most)*chartHeight, lowestBar)
		row.Bars = append(row.Bars, bar{
			X: i, Y: chartHeight - height, Height: height, Count: n, Begin: s.Begin, End: s.End, Link: messagesBetween(s.Begin, s.End, query),
		})
	}
	h.Rows = append(h.Rows, row)
}

// Total is the number of events of all rows.
func (h histogram) Total() (n int64) {
	for _, row := range h.Rows {
		n += row.Total
	}
	return n
}

// Begin is the begin of the first step.
func (h histogram) Begin() time.Time { return h.Steps[0].Begin }

// End is the end of the last step.
func (h histogram) End() time.Time { return h.Steps[len(h.Steps)-1].End }

func messagesBetween(begin, end time.Time, query string) string {
	values := url.Values{"from": {begin.Format(time.RFC3339)}, "to": {end.Format(time.RFC3339)}}
	if query != "" {
		values.Set("q", query)
	}
	return "/messages?" + values.Encode()
}

package console

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/watershipmq/watership/internal/api"
	"github.com/watershipmq/watership/internal/routestate"
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

func newHistogram(counts api.Values, f filter, actions ...string) histogram {
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

func (h *histogram) add(series api.Series, f filter) {
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

// schedule is a picture of the attempts of a message, on a logarithmic axis of time.
type schedule struct {
	routestate.Schedule
	Total    time.Duration
	Attempts []attempt
	Ticks    []tick
	End      string // where the message is given up, as a share of the width
	Hidden   int    // attempts that the picture leaves out
}

// attempt is an attempt at a place of the axis.
type attempt struct {
	Number       int
	Delay, After time.Duration // since the attempt before, and since the first
	X            string        // such as 12.50%
	Labelled     bool          // there is room for its number
}

// tick is a time of the axis.
type tick struct{ X, Text string }

// The axis goes from axisBegin to axisEnd percent of the width. Numbers of attempts and
// times need some room.
const (
	axisBegin, axisEnd  = 3.0, 94.0
	labelRoom, tickRoom = 3.5, 11.0
)

func newSchedule(s routestate.Schedule) schedule {
	total := seconds(s.Total)
	made := schedule{Schedule: s, Total: total, Hidden: s.Attempts - 1 - len(s.Delays)}
	unit := time.Second
	if len(s.Delays) > 0 && s.Delays[0] > 0 {
		unit = seconds(s.Delays[0])
	}
	after, labelled := time.Duration(0), axisBegin
	made.Attempts = []attempt{{Number: 1, X: percent(axisBegin), Labelled: true}}
	for i, delay := range s.Delays {
		after += seconds(delay)
		share := position(after, total, unit)
		next := attempt{Number: i + 2, Delay: seconds(delay), After: after, X: percent(share), Labelled: share-labelled >= labelRoom}
		if next.Labelled {
			labelled = share
		}
		made.Attempts = append(made.Attempts, next)
	}
	made.End = percent(axisEnd + 4.5)
	last := math.Inf(-1)
	for _, at := range []time.Duration{
		time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 365 * 24 * time.Hour,
	} {
		share := position(at, total, unit)
		if at < total && share-last > tickRoom && share > axisBegin+tickRoom {
			made.Ticks, last = append(made.Ticks, tick{percent(share), formatDuration(at)}), share
		}
	}
	return made
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}

// position returns the place of a time on the axis in percent.
func position(at, total, unit time.Duration) float64 {
	if total == 0 {
		return axisBegin
	}
	log := func(d time.Duration) float64 { return math.Log1p(float64(d) / float64(unit)) }
	return axisBegin + (axisEnd-axisBegin)*log(at)/log(total)
}

func percent(share float64) string { return strconv.FormatFloat(share, 'f', 2, 64) + "%" }

// Text describes the picture.
func (s schedule) Text() string {
	if s.Schedule.Attempts == 1 {
		return "One attempt; a message that fails is given up"
	}
	text := fmt.Sprintf("%d attempts within %s", s.Schedule.Attempts, formatDuration(s.Total))
	if s.Jitter > 0 {
		text += fmt.Sprintf(", each delay shorter by up to %.0f %%", 100*s.Jitter)
	}
	return text
}

// Clock returns a time as axes and tables show it.
func (v view) Clock(at time.Time) string {
	layout := "2 Jan 15:04"
	if at.Second() != 0 {
		layout += ":05"
	}
	return at.In(v.Zone).Format(layout)
}

// Package chart lays out histograms of events over time, for SVG.
package chart

import (
	"fmt"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// Histogram is a chart of the number of events over time, in steps of equal length.
type Histogram struct {
	Begin  time.Time
	Step   time.Duration
	Bars   []Bar
	Series []Series // that have events
	Total  int64
}

// Series has the counts of one kind of events over time. Its steps may be shorter than
// the steps of the chart.
type Series struct {
	Name   string
	Counts []eventstore.Bucket // with the begin of a step as text
	Total  int64               // that New has counted
}

// Bar is a step of a histogram. Lengths are in the units of the chart.
type Bar struct {
	From, To time.Time
	Count    int64
	X        int
	Parts    []Part // from the bottom
}

// Part is the part of a bar that a series has.
type Part struct {
	Name      string
	Y, Height float64
}

// Lengths of a chart.
const (
	Height   = 100
	barWidth = 10
)

// Width returns the width of the chart.
func (h Histogram) Width() int { return max(len(h.Bars)*barWidth, 1) }

// Height returns the height of the chart.
func (Histogram) Height() int { return Height }

// End returns the end of the last step.
func (h Histogram) End() time.Time { return h.Begin.Add(time.Duration(len(h.Bars)) * h.Step) }

// Most returns the number of events of the highest bar.
func (h Histogram) Most() (most int64) {
	for _, bar := range h.Bars {
		most = max(most, bar.Count)
	}
	return most
}

// Period is the time that a chart shows. A zero time stands for the time of the first or last event.
type Period struct {
	Begin, End time.Time
	Zone       *time.Location // in which days begin
}

// New returns a chart of a period with at most n bars. It has none if there is no event
// and no period.
func New(list []Series, over Period, n int) (Histogram, error) {
	all, err := readCounts(list)
	if err != nil || len(all) == 0 && (over.Begin.IsZero() || over.End.IsZero()) {
		return Histogram{}, err
	}
	longest := time.Duration(0)
	begins, ends := over.Begin.IsZero(), over.End.IsZero()
	for _, c := range all {
		longest = max(longest, c.length)
		if begins && (over.Begin.IsZero() || c.begin.Before(over.Begin)) {
			over.Begin = c.begin
		}
		if end := c.begin.Add(c.length); ends && end.After(over.End) {
			over.End = end
		}
	}
	h := newBars(over, max(longest, eventstore.NewSteps(over.Begin, over.End, n, over.Zone).Length))
	for _, c := range all {
		h.add(c)
	}
	for _, s := range list {
		for _, c := range s.Counts {
			s.Total += c.Count
		}
		if s.Total > 0 {
			h.Series = append(h.Series, s)
			h.Total += s.Total
		}
	}
	h.layOut()
	return h, nil
}

// count is the number of events of a series in one of its steps.
type count struct {
	name   string
	begin  time.Time
	length time.Duration
	events int64
}

// readCounts reads the times of the steps with events. A step ends where the next begins.
func readCounts(list []Series) (all []count, err error) {
	for _, s := range list {
		length := time.Second
		times := make([]time.Time, len(s.Counts))
		for i, c := range s.Counts {
			if times[i], err = time.Parse(time.RFC3339, c.Text); err != nil {
				return nil, fmt.Errorf("reading the times of a histogram: %w", err)
			}
			if i > 0 {
				length = times[i].Sub(times[i-1])
			}
		}
		for i, c := range s.Counts {
			if c.Count > 0 {
				all = append(all, count{s.Name, times[i], length, c.Count})
			}
		}
	}
	return all, nil
}

// maxBars bounds a chart whatever its period is: the longest round step is a year.
const maxBars = 1000

// newBars returns a chart without events. Its steps begin where the steps of a store do. It
// counts in milliseconds, since a time.Duration is at most 292 years.
func newBars(over Period, length time.Duration) Histogram {
	_, offset := over.End.In(over.Zone).Zone()
	shift := time.Second.Milliseconds() * int64(offset)
	first, last, step := over.Begin.UnixMilli()+shift, over.End.UnixMilli()+shift, length.Milliseconds()
	for (last-first)/step >= maxBars {
		step *= 10
	}
	begin := first - (first%step+step)%step
	h := Histogram{Begin: time.UnixMilli(begin - shift).UTC(), Step: time.Duration(step) * time.Millisecond}
	for at := begin; at < last || len(h.Bars) == 0; at += step {
		h.Bars = append(h.Bars, Bar{From: time.UnixMilli(at - shift).UTC(), To: time.UnixMilli(at + step - shift).UTC(), X: len(h.Bars) * barWidth})
	}
	return h
}

// add adds a count to the bar in which its middle is: days of a series whose last event is
// in another season begin an hour off.
func (h Histogram) add(c count) {
	at := int(c.begin.Add(c.length/2).Sub(h.Begin) / h.Step)
	bar := &h.Bars[min(max(at, 0), len(h.Bars)-1)]
	bar.Count += c.events
	if last := len(bar.Parts) - 1; last >= 0 && bar.Parts[last].Name == c.name {
		bar.Parts[last].Height += float64(c.events)
		return
	}
	bar.Parts = append(bar.Parts, Part{Name: c.name, Height: float64(c.events)})
}

// layOut puts the parts of each bar upon one another. Few events are still visible.
func (h Histogram) layOut() {
	most := float64(max(h.Most(), 1))
	for _, bar := range h.Bars {
		y := float64(Height)
		for i := range bar.Parts {
			part := &bar.Parts[i]
			part.Height = max(part.Height*Height/most, 1)
			y = max(y-part.Height, 0)
			part.Y = y
		}
	}
}

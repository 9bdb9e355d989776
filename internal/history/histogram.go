package history

import "time"

// maxSteps is the maximum number of steps of a Histogram.
const maxSteps = 32

// Histogram counts failures over time, in at most 32 steps of 1, 2, 4, 8 … seconds: as
// short as the failures allow. Steps of all histograms begin at multiples of their length,
// so that a long one is the sum of short ones.
type Histogram struct {
	Begin  time.Time `json:"begin"`        // of the first step
	Step   int64     `json:"step_seconds"` // length
	Counts []int     `json:"counts"`       // of the steps
}

// add counts n failures at a time.
func (h *Histogram) add(at time.Time, n int) {
	if len(h.Counts) == 0 {
		h.Begin, h.Step, h.Counts = time.Unix(at.Unix(), 0).UTC(), 1, []int{0}
	}
	begin, index := h.index(h.Begin), h.index(at)
	for max(index, begin+int64(len(h.Counts))-1)-min(index, begin) >= maxSteps {
		h.double()
		begin, index = h.index(h.Begin), h.index(at)
	}
	if before := begin - index; before > 0 {
		h.Counts = append(make([]int, before), h.Counts...)
		h.Begin = time.Unix(index*h.Step, 0).UTC()
		begin = index
	}
	if after := index - begin - int64(len(h.Counts)) + 1; after > 0 {
		h.Counts = append(h.Counts, make([]int, after)...)
	}
	h.Counts[index-begin] += n
}

// index returns the number of the step that has a time.
func (h *Histogram) index(at time.Time) int64 {
	seconds := at.Unix()
	index := seconds / h.Step
	if seconds%h.Step < 0 {
		index--
	}
	return index
}

// double makes one step of two.
func (h *Histogram) double() {
	short := *h
	h.Step *= 2
	h.Begin, h.Counts = time.Unix(h.index(short.Begin)*h.Step, 0).UTC(), nil
	for i, n := range short.Counts {
		at := int(h.index(short.at(i)) - h.index(h.Begin))
		if at == len(h.Counts) {
			h.Counts = append(h.Counts, 0)
		}
		h.Counts[at] += n
	}
}

// at returns the begin of a step.
func (h *Histogram) at(step int) time.Time {
	return time.Unix(h.Begin.Unix()+int64(step)*h.Step, 0).UTC()
}

// End returns the end of the last step.
func (h *Histogram) End() time.Time { return h.at(len(h.Counts)) }

// Align returns histograms with the same steps, which cover the time of all of them.
func Align(all []Histogram) []Histogram {
	var axis Histogram
	for _, h := range all {
		if len(h.Counts) > 0 {
			axis.add(h.Begin, 0)
			axis.add(h.End().Add(-time.Second), 0)
		}
	}
	aligned := make([]Histogram, len(all))
	for i, h := range all {
		aligned[i] = Histogram{axis.Begin, axis.Step, make([]int, len(axis.Counts))}
		for step, n := range h.Counts {
			aligned[i].add(h.at(step), n)
		}
	}
	return aligned
}

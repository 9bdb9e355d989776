package terminal

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Bar shows the progress of long work on a terminal, and nothing elsewhere.
type Bar struct {
	out        io.Writer
	total      int // 0: not known
	doneBefore int // steps that the rate excludes
	started    time.Time
	drawn      time.Time
	shown      bool
}

const (
	barWidth   = 30
	barRefresh = 100 * time.Millisecond
)

// NewBar returns a bar for total steps; 0: the number is unknown.
func NewBar(out io.Writer, total int) *Bar {
	return &Bar{out: out, total: total, started: time.Now(), shown: IsTerminal(out) && total != 1} // one is no long work
}

// StartAt sets the number of steps that were done before; the rate excludes them.
func (b *Bar) StartAt(done int) { b.doneBefore = done }

// Expect sets the total of a bar that was made without one.
func (b *Bar) Expect(total int) { b.total = total }

// IsShown reports whether the bar is on a terminal.
func (b *Bar) IsShown() bool { return b.shown }

// Show draws the bar, at most ten times a second.
func (b *Bar) Show(done int) {
	now := time.Now()
	if !b.shown || now.Sub(b.drawn) < barRefresh && done != b.total {
		return
	}
	b.drawn = now
	rate := float64(done-b.doneBefore) / max(now.Sub(b.started).Seconds(), 0.001)
	if b.total == 0 {
		fmt.Fprintf(b.out, "\r\x1b[K%d  %.0f/s", done, rate)
		return
	}
	filled := barWidth * min(done, b.total) / b.total
	left := time.Duration(float64(max(b.total-done, 0)) / max(rate, 0.001) * float64(time.Second))
	fmt.Fprintf(b.out, "\r\x1b[K[%s%s] %d/%d  %.0f/s  %s left", strings.Repeat("#", filled),
		strings.Repeat(".", barWidth-filled), done, b.total, rate, left.Round(time.Second))
}

// End finishes the line of the bar.
func (b *Bar) End() {
	if b.shown && !b.drawn.IsZero() {
		fmt.Fprintln(b.out)
	}
}

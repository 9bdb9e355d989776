package cli

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// bar shows on a terminal how far long work has come, and is silent elsewhere.
type bar struct {
	out     io.Writer
	total   int // 0: not known
	from    int // done before, which says nothing of the rate
	started time.Time
	drawn   time.Time
	on      bool
}

const (
	barWidth   = 30
	barRefresh = 100 * time.Millisecond
)

func newBar(out io.Writer, total int) *bar {
	return &bar{out: out, total: total, started: time.Now(), on: isTerminal(out) && total != 1} // one is no long work
}

func (b *bar) show(done int) {
	now := time.Now()
	if !b.on || now.Sub(b.drawn) < barRefresh && done != b.total {
		return
	}
	b.drawn = now
	rate := float64(done-b.from) / max(now.Sub(b.started).Seconds(), 0.001)
	if b.total == 0 {
		fmt.Fprintf(b.out, "\r\x1b[K%d  %.0f/s", done, rate)
		return
	}
	filled := barWidth * min(done, b.total) / b.total
	left := time.Duration(float64(max(b.total-done, 0)) / max(rate, 0.001) * float64(time.Second))
	fmt.Fprintf(b.out, "\r\x1b[K[%s%s] %d/%d  %.0f/s  %s left", strings.Repeat("#", filled),
		strings.Repeat(".", barWidth-filled), done, b.total, rate, left.Round(time.Second))
}

func (b *bar) end() {
	if b.on && !b.drawn.IsZero() {
		fmt.Fprintln(b.out)
	}
}

package cli

import (
	"bufio"
	"io"
	"strings"

	"github.com/watershipmq/watership/schemas/query"
)

// column is one of a table.
type column struct {
	title   string
	fixed   bool // never made narrower
	right   bool // aligned to the right
	spare   int  // left out where there is no room, the highest first; 0: never
	colours map[string]colour
	out     bool // left out
}

const (
	tablePage   = 100 // rows whose widths are found together
	tableGap    = "  "
	narrowest   = 8   // characters of a column that has to make room
	widestUncut = 200 // characters, where there is no terminal to fit
)

// table writes rows in columns, a page at a time, so that it needs no more
// memory for a million rows than for a hundred. A later page may have wider
// columns than those before.
type table struct {
	out     *bufio.Writer
	screen  screen
	columns []column
	widths  []int
	rows    [][]string
	headed  bool
}

func newTable(out io.Writer, on screen, columns ...column) *table {
	t := &table{out: bufio.NewWriter(out), screen: on, columns: columns, widths: make([]int, len(columns))}
	for i, c := range columns {
		t.widths[i] = query.Width(c.title)
	}
	return t
}

// row takes one value for each column.
func (t *table) row(values ...string) error {
	for i, value := range values {
		values[i] = cell(value, widestUncut)
	}
	t.rows = append(t.rows, values)
	if len(t.rows) < tablePage {
		return nil
	}
	return t.flush()
}

// flush writes the rows that were taken so far, and above the first the titles.
func (t *table) flush() error {
	t.measure()
	if !t.headed {
		t.headed = true
		titles := make([]string, len(t.columns))
		for i, c := range t.columns {
			titles[i] = c.title
		}
		t.line(titles, true)
	}
	for _, row := range t.rows {
		t.line(row, false)
	}
	t.rows = t.rows[:0]
	return t.out.Flush()
}

// measure finds the widths for the rows at hand, never less than before.
func (t *table) measure() {
	for _, row := range t.rows {
		for i, value := range row {
			if !t.columns[i].out {
				t.widths[i] = max(t.widths[i], query.Width(value))
			}
		}
	}
	if t.screen.width > 0 {
		if !t.headed {
			t.leaveOut()
		}
		fit(t.widths, t.columns, t.screen.width)
	}
}

// leaveOut takes away what can be spared, until the rest can be made to fit.
func (t *table) leaveOut() {
	for t.least() > t.screen.width {
		first := -1
		for i, c := range t.columns {
			if c.spare > 0 && !c.out && (first < 0 || c.spare > t.columns[first].spare) {
				first = i
			}
		}
		if first < 0 {
			return
		}
		t.columns[first].out = true
	}
}

// least is how wide the table is at its narrowest.
func (t *table) least() int {
	sum := -len(tableGap)
	for i, c := range t.columns {
		switch {
		case c.out:
		case c.fixed:
			sum += len(tableGap) + t.widths[i]
		default:
			sum += len(tableGap) + min(t.widths[i], narrowest)
		}
	}
	return sum
}

// fit narrows the widest columns, character by character, until all fit.
func fit(widths []int, columns []column, room int) {
	excess := -len(tableGap) - room
	for i, width := range widths {
		if !columns[i].out {
			excess += len(tableGap) + width
		}
	}
	for ; excess > 0; excess-- {
		widest := -1
		for i, width := range widths {
			if !columns[i].fixed && !columns[i].out && width > narrowest && (widest < 0 || width > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

func (t *table) line(values []string, title bool) {
	last := t.last()
	for i, value := range values[:last+1] {
		if t.columns[i].out {
			continue
		}
		shown := cell(value, t.widths[i])
		padding := strings.Repeat(" ", max(0, t.widths[i]-query.Width(shown)))
		c := t.columns[i].colours[value]
		if title {
			c = bold
		}
		switch {
		case t.columns[i].right:
			t.out.WriteString(padding + t.screen.paint(shown, c))
		case i == last:
			t.out.WriteString(t.screen.paint(shown, c))
		default:
			t.out.WriteString(t.screen.paint(shown, c) + padding)
		}
		if i < last {
			t.out.WriteString(tableGap)
		}
	}
	t.out.WriteByte('\n')
}

// last is the place of the last column that is shown.
func (t *table) last() int {
	last := len(t.columns) - 1
	for last > 0 && t.columns[last].out {
		last--
	}
	return last
}

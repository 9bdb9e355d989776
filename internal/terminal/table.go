package terminal

import (
	"bufio"
	"io"
	"strings"

	"github.com/watershipmq/watership/eventstore/kql"
)

// Column is a column of a table.
type Column struct {
	Title   string
	Fixed   bool // never made narrower
	Right   bool // aligned to the right
	Spare   int  // left out where there is no room, the highest first; 0: never
	Colours map[string]Colour
	out     bool // left out
}

const (
	tablePage = 100 // rows whose widths are found together
	tableGap  = "  "
	narrowest = 8 // characters of a column that has to make room
)

// WidestUncut is the widest cell, in characters, where there is no terminal to fit.
const WidestUncut = 200

// Table writes rows in columns, a page at a time, so that it needs no more
// memory for a million rows than for a hundred. A later page may have wider
// columns than those before.
type Table struct {
	out     *bufio.Writer
	screen  Screen
	columns []Column
	widths  []int
	rows    [][]string
	headed  bool
}

// NewTable returns a table that fits the screen.
func NewTable(out io.Writer, on Screen, columns ...Column) *Table {
	t := &Table{out: bufio.NewWriter(out), screen: on, columns: columns, widths: make([]int, len(columns))}
	for i, c := range columns {
		t.widths[i] = kql.Width(c.Title)
	}
	return t
}

// Row adds a row, with one value for each column.
func (t *Table) Row(values ...string) error {
	for i, value := range values {
		values[i] = Cell(value, WidestUncut)
	}
	t.rows = append(t.rows, values)
	if len(t.rows) < tablePage {
		return nil
	}
	return t.Flush()
}

// Flush writes the rows that were added so far, and above the first the titles.
func (t *Table) Flush() error {
	t.measure()
	if !t.headed {
		t.headed = true
		titles := make([]string, len(t.columns))
		for i, c := range t.columns {
			titles[i] = c.Title
		}
		t.line(titles, true)
	}
	for _, row := range t.rows {
		t.line(row, false)
	}
	t.rows = t.rows[:0]
	return t.out.Flush()
}

// measure finds the widths for the rows that were added, never less than before.
func (t *Table) measure() {
	for _, row := range t.rows {
		for i, value := range row {
			if !t.columns[i].out {
				t.widths[i] = max(t.widths[i], kql.Width(value))
			}
		}
	}
	if t.screen.Width > 0 {
		if !t.headed {
			t.leaveOut()
		}
		fit(t.widths, t.columns, t.screen.Width)
	}
}

// leaveOut takes away what can be spared, until the rest can be made to fit.
func (t *Table) leaveOut() {
	for t.least() > t.screen.Width {
		first := -1
		for i, c := range t.columns {
			if c.Spare > 0 && !c.out && (first < 0 || c.Spare > t.columns[first].Spare) {
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
func (t *Table) least() int {
	sum := -len(tableGap)
	for i, c := range t.columns {
		switch {
		case c.out:
		case c.Fixed:
			sum += len(tableGap) + t.widths[i]
		default:
			sum += len(tableGap) + min(t.widths[i], narrowest)
		}
	}
	return sum
}

// fit narrows the widest columns, character by character, until all fit.
func fit(widths []int, columns []Column, room int) {
	excess := -len(tableGap) - room
	for i, width := range widths {
		if !columns[i].out {
			excess += len(tableGap) + width
		}
	}
	for ; excess > 0; excess-- {
		widest := -1
		for i, width := range widths {
			if !columns[i].Fixed && !columns[i].out && width > narrowest && (widest < 0 || width > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

func (t *Table) line(values []string, title bool) {
	last := t.last()
	for i, value := range values[:last+1] {
		if t.columns[i].out {
			continue
		}
		shown := Cell(value, t.widths[i])
		padding := strings.Repeat(" ", max(0, t.widths[i]-kql.Width(shown)))
		c := t.columns[i].Colours[value]
		if title {
			c = Bold
		}
		switch {
		case t.columns[i].Right:
			t.out.WriteString(padding + t.screen.Paint(shown, c))
		case i == last:
			t.out.WriteString(t.screen.Paint(shown, c))
		default:
			t.out.WriteString(t.screen.Paint(shown, c) + padding)
		}
		if i < last {
			t.out.WriteString(tableGap)
		}
	}
	t.out.WriteByte('\n')
}

// last is the place of the last column that is shown.
func (t *Table) last() int {
	last := len(t.columns) - 1
	for last > 0 && t.columns[last].out {
		last--
	}
	return last
}

package main

import (
	"bufio"
	"io"
	"strings"
	"unicode/utf8"
)

// column is one of a table.
type column struct {
	title   string
	fixed   bool // never made narrower
	right   bool // aligned to the right
	colours map[string]colour
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
		t.widths[i] = utf8.RuneCountInString(c.title)
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
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(value))
		}
	}
	if t.screen.width > 0 {
		fit(t.widths, t.columns, t.screen.width)
	}
}

// fit narrows the widest columns, character by character, until all fit.
func fit(widths []int, columns []column, room int) {
	excess := len(tableGap)*(len(widths)-1) - room
	for _, width := range widths {
		excess += width
	}
	for ; excess > 0; excess-- {
		widest := -1
		for i, width := range widths {
			if !columns[i].fixed && width > narrowest && (widest < 0 || width > widths[widest]) {
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
	for i, value := range values {
		if i > 0 {
			t.out.WriteString(tableGap)
		}
		shown := cell(value, t.widths[i])
		padding := strings.Repeat(" ", max(0, t.widths[i]-utf8.RuneCountInString(shown)))
		c := t.columns[i].colours[value]
		if title {
			c = bold
		}
		switch {
		case t.columns[i].right:
			t.out.WriteString(padding + t.screen.paint(shown, c))
		case i == len(values)-1:
			t.out.WriteString(t.screen.paint(shown, c))
		default:
			t.out.WriteString(t.screen.paint(shown, c) + padding)
		}
	}
	t.out.WriteByte('\n')
}

package terminal

import (
	"bufio"
	"io"
	"slices"
	"strings"

	"github.com/watershipmq/watership/eventstore/kql"
)

// Column is a column of a table.
type Column struct {
	Title     string
	Fixed     bool // never made narrower
	Right     bool // aligned to the right
	Times     bool // shows times; in a terminal, the title of the first such column names their zone
	DropOrder int  // columns with a higher order are left out first where there is no room; 0: never
	Colours   map[string]Colour
	dropped   bool // left out, by DropOrder
}

const (
	rowsPerPage    = 100 // rows whose widths are found together
	columnGap      = "  "
	minColumnWidth = 8 // characters of a column that is not fixed
)

// MaxCellWidth is the widest cell, in characters, where there is no terminal to fit.
const MaxCellWidth = 200

// Table writes rows in columns, a page at a time, so that it needs no more
// memory for a million rows than for a hundred. A later page may have wider
// columns than those before.
type Table struct {
	out           *bufio.Writer
	screen        Screen
	columns       []Column
	widths        []int
	rows          [][]string
	titlesWritten bool
}

// NewTable returns a table that fits the screen.
func NewTable(out io.Writer, screen Screen, columns ...Column) *Table {
	t := &Table{out: bufio.NewWriter(out), screen: screen, columns: slices.Clone(columns), widths: make([]int, len(columns))}
	for i, c := range columns {
		t.widths[i] = kql.Width(c.Title)
	}
	return t
}

// Row adds a row, with one value for each column.
func (t *Table) Row(values ...string) error {
	for i, value := range values {
		values[i] = Cell(value, MaxCellWidth)
	}
	t.rows = append(t.rows, values)
	if len(t.rows) < rowsPerPage {
		return nil
	}
	return t.Flush()
}

// Flush writes the rows that were added so far, and above the first the titles.
func (t *Table) Flush() error {
	t.measure()
	if !t.titlesWritten {
		t.titlesWritten = true
		titles := make([]string, len(t.columns))
		for i, c := range t.columns {
			titles[i] = c.Title
		}
		t.writeLine(titles, true)
	}
	for _, row := range t.rows {
		t.writeLine(row, false)
	}
	t.rows = t.rows[:0]
	return t.out.Flush()
}

// measure finds the widths for the rows that were added, never less than before.
func (t *Table) measure() {
	for _, row := range t.rows {
		for i, value := range row {
			if !t.columns[i].dropped {
				t.widths[i] = max(t.widths[i], kql.Width(value))
			}
		}
	}
	if t.screen.Width > 0 {
		if !t.titlesWritten {
			t.dropColumns()
			t.nameZone()
		}
		shrinkToFit(t.widths, t.columns, t.screen.Width)
	}
}

// nameZone adds the zone to the title of the first column with times.
func (t *Table) nameZone() {
	if i := slices.IndexFunc(t.columns, func(c Column) bool { return c.Times && !c.dropped }); i >= 0 {
		t.columns[i].Title = t.screen.TimesTitle(t.columns[i].Title)
		t.widths[i] = max(t.widths[i], kql.Width(t.columns[i].Title))
	}
}

// dropColumns leaves out columns by their order, until the others can be made to fit.
func (t *Table) dropColumns() {
	for t.minWidth() > t.screen.Width {
		first := -1
		for i, c := range t.columns {
			if c.DropOrder > 0 && !c.dropped && (first < 0 || c.DropOrder > t.columns[first].DropOrder) {
				first = i
			}
		}
		if first < 0 {
			return
		}
		t.columns[first].dropped = true
	}
}

// minWidth returns the least width of the table.
func (t *Table) minWidth() int {
	sum := -len(columnGap)
	for i, c := range t.columns {
		switch {
		case c.dropped:
		case c.Fixed:
			sum += len(columnGap) + t.widths[i]
		default:
			sum += len(columnGap) + min(t.widths[i], minColumnWidth)
		}
	}
	return sum
}

// shrinkToFit narrows the widest columns, character by character, until all fit.
func shrinkToFit(widths []int, columns []Column, room int) {
	excess := -len(columnGap) - room
	for i, width := range widths {
		if !columns[i].dropped {
			excess += len(columnGap) + width
		}
	}
	for ; excess > 0; excess-- {
		widest := -1
		for i, width := range widths {
			if !columns[i].Fixed && !columns[i].dropped && width > minColumnWidth && (widest < 0 || width > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		widths[widest]--
	}
}

func (t *Table) writeLine(values []string, title bool) {
	last := t.lastShown()
	for i, value := range values[:last+1] {
		if t.columns[i].dropped {
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
			t.out.WriteString(columnGap)
		}
	}
	t.out.WriteByte('\n')
}

// lastShown returns the index of the last column that is shown.
func (t *Table) lastShown() int {
	last := len(t.columns) - 1
	for last > 0 && t.columns[last].dropped {
		last--
	}
	return last
}

package terminal

import (
	"encoding/csv"
	"io"
	"strings"
)

// CSV writes comma-separated values (RFC 4180) without formulas of spreadsheets and,
// on a terminal, without control characters.
type CSV struct {
	*csv.Writer
	toTerminal bool
}

// NewCSV returns a CSV that writes to out.
func NewCSV(out io.Writer) CSV { return CSV{csv.NewWriter(out), IsTerminal(out)} }

// Escape puts an apostrophe before a text that would be a formula in a spreadsheet, as
// Kibana does (xpack.reporting.csv.escapeFormulaValues).
func (c CSV) Escape(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		text = "'" + text
	}
	if c.toTerminal {
		return Escaped(text)
	}
	return text
}

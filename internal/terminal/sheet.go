package terminal

import (
	"encoding/csv"
	"io"
	"strings"
)

// Sheet writes comma-separated values (RFC 4180) without formulas of spreadsheets and,
// on a terminal, without control characters.
type Sheet struct {
	*csv.Writer
	toTerminal bool
}

// NewSheet returns a sheet that writes to out.
func NewSheet(out io.Writer) Sheet { return Sheet{csv.NewWriter(out), IsTerminal(out)} }

// Text puts an apostrophe before a text that would be a formula in a spreadsheet, as
// Kibana does (xpack.reporting.csv.escapeFormulaValues).
func (s Sheet) Text(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		text = "'" + text
	}
	if s.toTerminal {
		return Escaped(text)
	}
	return text
}

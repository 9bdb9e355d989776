package cli

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strings"
)

// sheet writes comma-separated values (RFC 4180) which no spreadsheet takes for
// formulas, and no terminal for orders.
type sheet struct {
	*csv.Writer
	toTerminal bool
}

func newSheet(out io.Writer) sheet { return sheet{csv.NewWriter(out), isTerminal(out)} }

// value is that of a field. A number may begin with a sign.
func (s sheet) value(r record, name string) string {
	if number, found := r.at(name); found {
		if n, is := number.(json.Number); is {
			return n.String()
		}
	}
	return s.text(r.text(name))
}

// text has an apostrophe in front where a spreadsheet would begin a formula, as
// Kibana does it (xpack.reporting.csv.escapeFormulaValues).
func (s sheet) text(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		text = "'" + text
	}
	if s.toTerminal {
		return escaped(text)
	}
	return text
}

package columns

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strings"
)

// CSV writes comma-separated values (RFC 4180) without formulas of spreadsheets.
type CSV struct {
	*csv.Writer
	clean func(string) string // nil: texts stay
}

// NewCSV returns a CSV that writes to out. clean changes the texts, as for a terminal, or
// is nil.
func NewCSV(out io.Writer, clean func(string) string) CSV { return CSV{csv.NewWriter(out), clean} }

// Escape puts an apostrophe before a text that would be a formula in a spreadsheet, as
// Kibana does (xpack.reporting.csv.escapeFormulaValues).
func (c CSV) Escape(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		text = "'" + text
	}
	if c.clean != nil {
		return c.clean(text)
	}
	return text
}

// WriteDocument writes the fields with these names. A number may begin with a sign.
func (c CSV) WriteDocument(d Document, names []string) error {
	values := make([]string, len(names))
	for i, name := range names {
		value, _ := d.At(name)
		if number, is := value.(json.Number); is {
			values[i] = number.String()
		} else {
			values[i] = c.Escape(d.Text(name))
		}
	}
	return c.Write(values)
}

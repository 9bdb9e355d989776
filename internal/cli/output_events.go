package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/render/columns"
	"github.com/watershipmq/watership/schemas"
)

// newEventWriter returns the writer of a format. It writes whole documents, or the fields
// alone with --fields.
func newEventWriter(lang language, to printer, format outputFormat, fields []field, only bool) eventWriter {
	encode := func(e schemas.Event) []byte { return document(e) }
	if only {
		encode = func(e schemas.Event) []byte { return fieldsJSON(newDocument(lang, e), fields) }
	}
	switch format.name {
	case "csv":
		return &csvWriter{lang, newCSV(to.Out), fields, false}
	case "json":
		return &jsonWriter{bufio.NewWriter(to.Out), encode, "[\n"}
	case "ndjson":
		return lineWriter{bufio.NewWriter(to.Out), encode}
	}
	return tableWriter{lang, terminal.NewTable(to.Out, to.screen, tableColumns(fields)...), fields}
}

func document(e schemas.Event) []byte {
	return terminal.SafeJSON(schemas.DocumentFormat{}.Append(nil, e))
}

// fieldsJSON returns a JSON object with only these fields of a document.
func fieldsJSON(d columns.Document, fields []field) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		value, _ := d.At(f.name)
		name, _ := json.Marshal(f.name) // a text
		text, _ := json.Marshal(value)  // it came from JSON
		b.Write(name)
		b.WriteByte(':')
		b.Write(text)
	}
	b.WriteByte('}')
	return terminal.SafeJSON(b.Bytes())
}

// lineWriter writes one JSON object a line.
type lineWriter struct {
	out    *bufio.Writer
	encode func(schemas.Event) []byte
}

func (w lineWriter) event(e schemas.Event) error {
	_, err := w.out.Write(append(w.encode(e), '\n'))
	return err
}

func (w lineWriter) end() error { return w.out.Flush() }

// jsonWriter writes a JSON array.
type jsonWriter struct {
	out    *bufio.Writer
	encode func(schemas.Event) []byte
	before string
}

func (w *jsonWriter) event(e schemas.Event) error {
	w.out.WriteString(w.before)
	w.before = ",\n"
	_, err := w.out.Write(w.encode(e))
	return err
}

func (w *jsonWriter) end() error {
	w.out.WriteString("\n]\n")
	return w.out.Flush()
}

// csvWriter writes comma-separated values, headed by the names of the fields.
type csvWriter struct {
	lang   language
	out    columns.CSV
	fields []field
	headed bool
}

func (w *csvWriter) event(e schemas.Event) error {
	if err := w.head(); err != nil {
		return err
	}
	return w.out.WriteDocument(newDocument(w.lang, e), namesOf(w.fields))
}

func (w *csvWriter) head() error {
	if w.headed {
		return nil
	}
	w.headed = true
	return w.out.Write(namesOf(w.fields))
}

func namesOf(fields []field) []string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}

// newCSV returns a CSV without control characters on a terminal.
func newCSV(out io.Writer) columns.CSV {
	if terminal.IsTerminal(out) {
		return columns.NewCSV(out, terminal.Escaped)
	}
	return columns.NewCSV(out, nil)
}

func (w *csvWriter) end() error {
	if err := w.head(); err != nil {
		return err
	}
	w.out.Flush()
	return w.out.Error()
}

// tableWriter writes aligned columns.
type tableWriter struct {
	lang   language
	table  *terminal.Table
	fields []field
}

func (w tableWriter) event(e schemas.Event) error {
	var d columns.Document
	values := make([]string, len(w.fields))
	for i, f := range w.fields {
		if f.value != nil {
			values[i] = f.value(e)
			continue
		}
		if d == nil {
			d = newDocument(w.lang, e)
		}
		values[i] = d.Text(f.name)
	}
	return w.table.Row(values...)
}

func (w tableWriter) end() error { return w.table.Flush() }

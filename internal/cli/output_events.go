package cli

import (
	"bufio"
	"bytes"
	"encoding/json"

	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/schemas"
)

// newEventWriter returns the writer of a format. It writes whole documents, or the fields
// alone with --fields.
func newEventWriter(lang language, to printer, format outputFormat, fields []field, only bool) eventWriter {
	encode := func(e schemas.Event) []byte { return document(e) }
	if only {
		encode = func(e schemas.Event) []byte { return newRecord(lang, e).object(fields) }
	}
	switch format.name {
	case "csv":
		return &csvWriter{lang, terminal.NewCSV(to.Out), fields, false}
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

// object returns a JSON object with only these fields.
func (r record) object(fields []field) []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range fields {
		if i > 0 {
			b.WriteByte(',')
		}
		value, _ := r.at(f.name)
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
	out    terminal.CSV
	fields []field
	headed bool
}

func (w *csvWriter) event(e schemas.Event) error {
	if err := w.head(); err != nil {
		return err
	}
	r := newRecord(w.lang, e)
	values := make([]string, len(w.fields))
	for i, f := range w.fields {
		values[i] = csvValue(w.out, r, f.name)
	}
	return w.out.Write(values)
}

func (w *csvWriter) head() error {
	if w.headed {
		return nil
	}
	w.headed = true
	names := make([]string, len(w.fields))
	for i, f := range w.fields {
		names[i] = f.name
	}
	return w.out.Write(names)
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
	var r record
	values := make([]string, len(w.fields))
	for i, f := range w.fields {
		if f.value != nil {
			values[i] = f.value(e)
			continue
		}
		if r == nil {
			r = newRecord(w.lang, e)
		}
		values[i] = r.text(f.name)
	}
	return w.table.Row(values...)
}

func (w tableWriter) end() error { return w.table.Flush() }

// csvValue returns the value of a field as text. A number may begin with a sign.
func csvValue(s terminal.CSV, r record, name string) string {
	if number, found := r.at(name); found {
		if n, is := number.(json.Number); is {
			return n.String()
		}
	}
	return s.Escape(r.text(name))
}

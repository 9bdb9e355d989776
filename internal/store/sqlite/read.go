package sqlite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/watershipmq/watership/schemas"
)

// entry is a document as it is written: whole, and apart for searching.
type entry struct {
	id, stream string
	head, body []byte
	values     []any // in the order of layout.columns
	words      []any // in the order of layout.texts
	terms      []term
}

// term is a value that is not in a column.
type term struct {
	field, name string
	value       any
}

// longestID is Elasticsearch's limit, in bytes, so that what one store takes
// the other does.
const longestID = 512

// read takes a document apart. An error says why it can never be kept.
func (l layout) read(doc schemas.Document) (entry, error) {
	if err := identified(doc); err != nil {
		return entry{}, err
	}
	r := reading{layout: l, entry: entry{
		id: doc.ID, stream: string(doc.Stream), values: make([]any, len(l.columns)), words: make([]any, len(l.texts)),
	}}
	if err := r.document(doc.Source); err != nil {
		return entry{}, err
	}
	r.values[l.column["event.id"]] = doc.ID
	for _, needed := range []string{"@timestamp", "event.sequence"} {
		if r.values[l.column[needed]] == nil {
			return entry{}, fmt.Errorf("the document has no %s", needed)
		}
	}
	return r.entry, nil
}

func identified(doc schemas.Document) error {
	switch {
	case doc.ID == "":
		return errors.New("the document has no id")
	case len(doc.ID) > longestID:
		return fmt.Errorf("the document's id has %d bytes, a store takes %d", len(doc.ID), longestID)
	case !utf8.ValidString(doc.ID):
		return errors.New("the document's id is not UTF-8")
	case doc.Stream != schemas.Traffic && doc.Stream != schemas.Failures:
		return fmt.Errorf("the document belongs to no stream of ours: %q", doc.Stream)
	}
	return nil
}

// reading is a document being taken apart.
type reading struct {
	layout
	entry
}

// document reads the members of the document one by one, to know where the body
// begins if it is the last, or else where the last ends.
func (r *reading) document(source []byte) error {
	d := json.NewDecoder(bytes.NewReader(source))
	d.UseNumber()
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return errors.New("the document is no JSON object")
	}
	var cut int64
	for d.More() {
		cut = d.InputOffset()
		name, err := d.Token()
		if err != nil {
			return noJSON(err)
		}
		if err := r.member(d, name.(string)); err != nil {
			return err
		}
		if name != "body" {
			cut = d.InputOffset()
		}
	}
	r.head, r.body = source[:cut], source[cut:]
	return r.end(d)
}

// end wants the end of the document, and nothing behind it.
func (r *reading) end(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return noJSON(err)
	}
	if d.More() {
		return errors.New("the document is no JSON: something comes after its end")
	}
	return nil
}

// member does not look into what only replay reads.
func (r *reading) member(d *json.Decoder, name string) error {
	if name == "amqp" {
		var skipped json.RawMessage
		return noJSON(d.Decode(&skipped))
	}
	var value any
	if err := d.Decode(&value); err != nil {
		return noJSON(err)
	}
	return r.value(name, value, false)
}

func noJSON(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the document is no JSON: %w", err)
}

package sqlite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/watershipmq/watership/schemas"
)

// parsedDocument is a document, split into its stored bytes and its searchable values.
type parsedDocument struct {
	id, stream string
	head, body []byte
	compressor *compressor // nil: not compressed yet
	compressed [2][]byte   // head and body
	values     []any       // in the order of layout.columns
	words      []any       // in the order of layout.texts
	terms      []term
}

// term is a value of a key: a text, or a number.
type term struct {
	field, name string
	value       any
}

// maxIDLength is Elasticsearch's limit, in bytes, so that both stores accept the same
// documents.
const maxIDLength = 512

// parse splits a document. An error means that the document is invalid for good.
func (l layout) parse(doc schemas.Document) (parsedDocument, error) {
	if err := checkIdentity(doc); err != nil {
		return parsedDocument{}, err
	}
	r := documentParser{layout: l, parsedDocument: parsedDocument{
		id: doc.ID, stream: string(doc.Stream), values: make([]any, len(l.columns)), words: make([]any, len(l.textColumns)),
	}}
	if err := r.readDocument(doc.Source); err != nil {
		return parsedDocument{}, err
	}
	r.values[l.columnIndex["event.id"]] = doc.ID
	for _, needed := range []string{"@timestamp", "event.sequence"} {
		if r.values[l.columnIndex[needed]] == nil {
			return parsedDocument{}, fmt.Errorf("the document has no %s", needed)
		}
	}
	return r.parsedDocument, nil
}

func checkIdentity(doc schemas.Document) error {
	switch {
	case doc.ID == "":
		return errors.New("the document has no id")
	case len(doc.ID) > maxIDLength:
		return fmt.Errorf("the document's id has %d bytes, the limit is %d", len(doc.ID), maxIDLength)
	case !utf8.ValidString(doc.ID):
		return errors.New("the document's id is not UTF-8")
	case doc.Stream != schemas.Traffic && doc.Stream != schemas.Failures:
		return fmt.Errorf("the document has an unknown stream %q", doc.Stream)
	}
	return nil
}

// documentParser is the state of parse.
type documentParser struct {
	layout
	parsedDocument
}

// readDocument reads the members one by one, to find the offset where the body begins if
// it is the last member, or else where the last member ends.
func (r *documentParser) readDocument(source []byte) error {
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
			return invalidJSON(err)
		}
		if err := r.readMember(d, name.(string)); err != nil {
			return err
		}
		if name != "body" {
			cut = d.InputOffset()
		}
	}
	r.head, r.body = source[:cut], source[cut:]
	return r.expectEnd(d)
}

// expectEnd returns an error if more follows the end of the document.
func (r *documentParser) expectEnd(d *json.Decoder) error {
	if _, err := d.Token(); err != nil {
		return invalidJSON(err)
	}
	if d.More() {
		return errors.New("the document is no JSON: text follows its end")
	}
	return nil
}

// readMember skips amqp, which is not searchable.
func (r *documentParser) readMember(d *json.Decoder, name string) error {
	if name == "amqp" {
		var skipped json.RawMessage
		return invalidJSON(d.Decode(&skipped))
	}
	var value any
	if err := d.Decode(&value); err != nil {
		return invalidJSON(err)
	}
	return r.addValue(name, value, false)
}

func invalidJSON(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the document is no JSON: %w", err)
}

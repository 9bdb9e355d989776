package sqlite

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/jsonscan"
)

// parsedDocument is a document, split into its stored bytes and its searchable values.
type parsedDocument struct {
	id         string
	stream     schemas.Stream
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
		id: doc.ID, stream: doc.Stream, values: make([]any, len(l.columns)), words: make([]any, len(l.textColumns)),
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
	case !doc.Stream.IsValid():
		return fmt.Errorf("the document has an unknown stream %q", doc.Stream)
	}
	return nil
}

// documentParser is the state of parse.
type documentParser struct {
	layout
	parsedDocument
	json    *jsonscan.Reader
	path    []byte // of the value that is read
	refused error  // of a value
}

// refuse ends the reading with the error of a value, unless it could not be read.
func (r *documentParser) refuse(err error) {
	if err != nil && r.json.Err() == nil {
		r.refused = err
		r.json.Fail(err)
	}
}

// readDocument reads the members one by one, to find the offset where the body begins if
// it is the last member, or else where the last member ends.
func (r *documentParser) readDocument(source []byte) error {
	r.json = jsonscan.New(source)
	if r.json.Peek() != '{' {
		return errors.New("the document is no JSON object")
	}
	cut := r.json.Offset() + 1
	r.json.Object(func(name []byte) {
		inBody := string(name) == "body"
		r.path = append(r.path[:0], name...)
		r.readValue(false)
		if !inBody {
			cut = r.json.Offset()
		}
	})
	if r.json.Err() == nil && r.json.Peek() != 0 {
		r.json.Fail(errors.New("text follows its end"))
	}
	if err := r.json.Err(); err != nil && r.refused == nil {
		return fmt.Errorf("the document is no JSON: %w", err)
	}
	r.head, r.body = source[:cut], source[cut:]
	return r.refused
}

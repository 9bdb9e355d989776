// Package bulkbody has the bodies of bulk requests.
package bulkbody

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/watershipmq/watership/schemas"
)

// Body is the body of a bulk request. It reads the documents where they are: a copy of
// them would take as much memory as all messages.
type Body struct {
	stream string
	size   int64

	mu        sync.Mutex // guards the fields below
	documents []schemas.Document
	line      []byte // of the action, to read
	scratch   []byte // memory of line
	source    []byte // to read after line
	unended   bool   // a line break is to read after source
	released  bool
}

// New returns the body of a request that creates documents in the streams of a name. Each
// Source is one JSON value.
func New(stream string, docs []schemas.Document) *Body {
	b := &Body{stream: stream, documents: docs}
	for _, doc := range docs {
		b.scratch = b.appendAction(b.scratch[:0], doc)
		b.size += int64(len(b.scratch) + len(doc.Source) + len("\n"))
	}
	return b
}

var errReleased = errors.New("the bulk request has ended")

// Size returns the number of bytes to read.
func (b *Body) Size() int64 { return b.size }

// Read implements io.Reader.
func (b *Body) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released {
		return 0, errReleased
	}
	for n < len(p) {
		switch {
		case len(b.line) > 0:
			copied := copy(p[n:], b.line)
			b.line, n = b.line[copied:], n+copied
		case len(b.source) > 0:
			copied := copy(p[n:], b.source)
			ReplaceLineBreaks(p[n : n+copied])
			b.source, n = b.source[copied:], n+copied
		case b.unended:
			b.line, b.unended = append(b.scratch[:0], '\n'), false
		case len(b.documents) > 0:
			b.scratch = b.appendAction(b.scratch[:0], b.documents[0])
			b.line, b.source, b.unended = b.scratch, b.documents[0].Source, true
			b.documents = b.documents[1:]
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
	return n, nil
}

// Close implements io.Closer.
func (b *Body) Close() error { return nil }

// Release ends the reading: net/http can still read after an early response or an error,
// when the documents may be gone.
func (b *Body) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.released, b.documents, b.source = true, nil, nil
}

func (b *Body) appendAction(dst []byte, doc schemas.Document) []byte {
	dst = append(dst, `{"create":{"_index":"`...)
	dst = append(dst, b.stream...)
	dst = append(dst, '-')
	dst = append(dst, doc.Stream...)
	dst = append(dst, `","_id":`...)
	dst = AppendID(dst, doc.ID)
	return append(dst, "}}\n"...)
}

// AppendID appends an id as a JSON string. Most need no escape.
func AppendID(dst []byte, id string) []byte {
	for i := range len(id) {
		if c := id[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			escaped, _ := json.Marshal(id) // strings always marshal
			return append(dst, escaped...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, id...)
	return append(dst, '"')
}

// ReplaceLineBreaks replaces the line breaks of JSON, which would end a document in a
// bulk request. In JSON they are white space between tokens (RFC 8259 §2).
func ReplaceLineBreaks(source []byte) {
	for {
		end := bytes.IndexByte(source, '\n')
		if end < 0 {
			return
		}
		source[end] = ' '
		source = source[end+1:]
	}
}

package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/schemas"
)

// longestID is Elasticsearch's limit of an _id, in bytes
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/mapping-id-field.html).
// A longer one makes it refuse a bulk as a whole, so it is never sent.
const longestID = 512

// Create writes documents that are not there yet, in one request, and says for
// each what became of it, in order:
//
//   - Created: durable on every copy of the shard that is in sync.
//   - Conflict: its id is taken in the index that is now written to; Index
//     names it. An older index of the stream may have it too: see Find.
//   - Refused: not acceptable as it is, and the others are none the worse.
//   - TooLarge: more than the node that has the shard takes at once.
//   - Busy: to be sent again later. This includes what concerns the whole
//     stream, such as a write block (a full disk) or a missing template.
//
// An error is a *schemas.StoreError, and then what became of the documents is
// not known: they are sent again, and those that were taken conflict. An
// answer that is incomplete is such an error too.
func (s *Store) Create(ctx context.Context, docs []schemas.Document) ([]schemas.Result, error) {
	results := make([]schemas.Result, len(docs))
	sent := make([]schemas.Document, 0, len(docs))
	places := make([]int, 0, len(docs)) // of what is sent, in docs
	for place, doc := range docs {
		if problem := unsendable(doc); problem != "" {
			results[place] = schemas.Result{Status: schemas.Refused, Reason: problem}
			continue
		}
		sent = append(sent, doc)
		places = append(places, place)
	}
	if len(sent) == 0 {
		return results, nil
	}
	answered, err := s.bulk(ctx, sent)
	if err != nil {
		return nil, err
	}
	for i, place := range places {
		results[place] = answered[i]
	}
	return results, nil
}

func creating(documents int) string { return fmt.Sprintf("creating %d documents", documents) }

// bulk sends one request. Its body is used again only once every document is
// answered for, which nobody can do before it is read to its end: net/http may
// still read from it after an early answer or a failure.
func (s *Store) bulk(ctx context.Context, docs []schemas.Document) ([]schemas.Result, error) {
	body := s.emptyBody(s.bulkSize(docs))
	for _, doc := range docs {
		body = s.appendCreate(body, doc)
	}
	answer, err := s.send(ctx, s.once, creating(len(docs)), esapi.BulkRequest{
		Body:              bytes.NewReader(body),
		Header:            http.Header{"Content-Type": {"application/x-ndjson"}},
		RequireDataStream: yes(), // else a missing template makes an ordinary index
		FilterPath:        []string{"items.*._id", "items.*.status", "items.*.error"},
	})
	if err != nil {
		return nil, err
	}
	results, err := s.readBulk(answer, docs)
	if err == nil {
		s.bodies.Put(&body)
	}
	return results, err
}

func (s *Store) emptyBody(size int) []byte {
	if used, ok := s.bodies.Get().(*[]byte); ok && cap(*used) >= size {
		return (*used)[:0]
	}
	return make([]byte, 0, size)
}

// unsendable says what would make Elasticsearch refuse more than the document itself.
func unsendable(doc schemas.Document) string {
	switch {
	case doc.ID == "":
		return "the document has no id"
	case len(doc.ID) > longestID:
		return fmt.Sprintf("the document's id has %d bytes, Elasticsearch takes %d", len(doc.ID), longestID)
	case !utf8.ValidString(doc.ID):
		return "the document's id is not UTF-8"
	case doc.Stream != schemas.Traffic && doc.Stream != schemas.Failures:
		return fmt.Sprintf("the document belongs to no stream of ours: %q", doc.Stream)
	}
	return ""
}

const (
	createIndex = `{"create":{"_index":"`
	createID    = `","_id":`
	createEnd   = "}}\n"
)

func (s *Store) appendCreate(dst []byte, doc schemas.Document) []byte {
	dst = append(dst, createIndex...)
	dst = append(dst, s.stream...)
	dst = append(dst, '-')
	dst = append(dst, doc.Stream...)
	dst = append(dst, createID...)
	dst = appendID(dst, doc.ID)
	dst = append(dst, createEnd...)
	dst = appendLine(dst, doc.Source)
	return append(dst, '\n')
}

func (s *Store) bulkSize(docs []schemas.Document) int {
	size := 0
	for _, doc := range docs {
		size += len(createIndex) + len(s.stream) + 1 + len(doc.Stream) +
			len(createID) + len(doc.ID) + 2 + len(createEnd) + len(doc.Source) + 1
	}
	return size
}

// appendID appends an id as a JSON string; most need no escape.
func appendID(dst []byte, id string) []byte {
	for i := range len(id) {
		if c := id[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			escaped, _ := json.Marshal(id) // a string cannot fail
			return append(dst, escaped...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, id...)
	return append(dst, '"')
}

// appendLine appends JSON without its line breaks, which would end the document
// in a bulk. In JSON they are only ever white space between tokens (RFC 8259 §2).
func appendLine(dst, source []byte) []byte {
	for {
		end := bytes.IndexByte(source, '\n')
		if end < 0 {
			return append(dst, source...)
		}
		dst = append(dst, source[:end]...)
		dst = append(dst, ' ')
		source = source[end+1:]
	}
}

package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// maxIDLength is Elasticsearch's limit of an _id, in bytes
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/mapping-id-field.html).
// It would refuse a whole bulk request because of a longer one.
const maxIDLength = 512

// Create writes documents with new ids in one bulk request, and returns a result for
// each, in order:
//
//   - Created: durable on every in-sync copy of the shard.
//   - Conflict: the id exists in the write index; Index names it. An older index of
//     the stream can have it too: see Find.
//   - Refused: the document is invalid. The others are not affected.
//   - TooLarge: the document exceeds the indexing pressure limit of the node.
//   - Busy: the document can be sent again later. This includes faults of the whole
//     stream, such as a write block (a full disk) or a missing template.
//
// An error is a *eventstore.Error, also for an incomplete response. Each document
// may have been written or not then. The indexer sends them again, and written ones
// conflict.
func (s *Store) Create(ctx context.Context, docs []schemas.Document) ([]eventstore.Result, error) {
	results := make([]eventstore.Result, len(docs))
	sent := make([]schemas.Document, 0, len(docs))
	positions := make([]int, 0, len(docs)) // index in docs of each sent document
	for position, doc := range docs {
		if problem := checkSendable(doc); problem != "" {
			results[position] = eventstore.Result{Status: eventstore.Refused, Reason: problem}
			continue
		}
		sent = append(sent, doc)
		positions = append(positions, position)
	}
	if len(sent) == 0 {
		return results, nil
	}
	written, err := s.sendBulk(ctx, sent)
	if err != nil {
		return nil, err
	}
	for i, position := range positions {
		results[position] = written[i]
	}
	return results, nil
}

func createOperation(documents int) string { return fmt.Sprintf("creating %d documents", documents) }

// sendBulk sends one request. It reuses the body only after a complete response: net/http
// can still read from it after an early response or an error.
func (s *Store) sendBulk(ctx context.Context, docs []schemas.Document) ([]eventstore.Result, error) {
	body := s.newBulkBody(s.bulkSize(docs))
	for _, doc := range docs {
		body = s.appendCreate(body, doc)
	}
	response, err := s.send(ctx, s.withoutRetries, createOperation(len(docs)), esapi.BulkRequest{
		Body:              bytes.NewReader(body),
		Header:            http.Header{"Content-Type": {"application/x-ndjson"}},
		RequireDataStream: new(true), // else a missing template makes an ordinary index
		FilterPath:        []string{"items.*._id", "items.*.status", "items.*.error"},
	})
	if err != nil {
		return nil, err
	}
	results, err := s.parseBulk(response, docs)
	if err == nil {
		s.bulkBodies.Put(&body)
	}
	return results, err
}

func (s *Store) newBulkBody(size int) []byte {
	if used, ok := s.bulkBodies.Get().(*[]byte); ok && cap(*used) >= size {
		return (*used)[:0]
	}
	return make([]byte, 0, size)
}

// checkSendable returns the reason if Elasticsearch would refuse more than the document.
func checkSendable(doc schemas.Document) string {
	switch {
	case doc.ID == "":
		return "the document has no id"
	case len(doc.ID) > maxIDLength:
		return fmt.Sprintf("the document's id has %d bytes, the limit is %d", len(doc.ID), maxIDLength)
	case !utf8.ValidString(doc.ID):
		return "the document's id is not UTF-8"
	case doc.Stream != schemas.Traffic && doc.Stream != schemas.Failures:
		return fmt.Sprintf("the document has an unknown stream %q", doc.Stream)
	}
	return ""
}

const (
	bulkIndexPrefix = `{"create":{"_index":"`
	bulkIDPrefix    = `","_id":`
	bulkActionEnd   = "}}\n"
)

func (s *Store) appendCreate(dst []byte, doc schemas.Document) []byte {
	dst = append(dst, bulkIndexPrefix...)
	dst = append(dst, s.stream...)
	dst = append(dst, '-')
	dst = append(dst, doc.Stream...)
	dst = append(dst, bulkIDPrefix...)
	dst = appendID(dst, doc.ID)
	dst = append(dst, bulkActionEnd...)
	dst = appendOneLine(dst, doc.Source)
	return append(dst, '\n')
}

func (s *Store) bulkSize(docs []schemas.Document) int {
	size := 0
	for _, doc := range docs {
		size += len(bulkIndexPrefix) + len(s.stream) + 1 + len(doc.Stream) +
			len(bulkIDPrefix) + len(doc.ID) + 2 + len(bulkActionEnd) + len(doc.Source) + 1
	}
	return size
}

// appendID appends an id as a JSON string. Most need no escape.
func appendID(dst []byte, id string) []byte {
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

// appendOneLine appends JSON without its line breaks, which would end the document
// in a bulk request. In JSON they are white space between tokens (RFC 8259 §2).
func appendOneLine(dst, source []byte) []byte {
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

package elastic

import (
	"context"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic/internal/bulkbody"
	"github.com/watershipmq/watership/schemas"
)

// maxIDLength is Elasticsearch's limit of an _id, in bytes
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/mapping-id-field.html).
// It would refuse a whole bulk request because of a longer one.
const maxIDLength = 512

// writer creates and replaces events.
type writer struct{ *client }

// Create writes documents with new ids in one bulk request, and returns a result for
// each, in order:
//
//   - Created: durable on every in-sync copy of the shard.
//   - Conflict: the id exists in the write index; Index names it. An older index of
//     the stream can have it too: see Find.
//   - Refused: the document is invalid. The others are not affected.
//   - TooLarge: the document exceeds the indexing pressure limit of the node.
//   - Busy: the document can be sent again later. This includes faults of a
//     stream, such as a write block (a full disk) or a missing template.
//
// An error is a *eventstore.Error, also for an incomplete response. Each document
// may have been written or not then. The indexer sends them again, and written ones
// conflict.
func (w *writer) Create(ctx context.Context, docs []schemas.Document) ([]eventstore.Result, error) {
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
	written, err := w.sendBulk(ctx, sent)
	if err != nil {
		return nil, err
	}
	for i, position := range positions {
		results[position] = written[i]
	}
	return results, nil
}

func createOperation(documents int) string { return fmt.Sprintf("creating %d documents", documents) }

// sendBulk sends one request.
func (w *writer) sendBulk(ctx context.Context, docs []schemas.Document) ([]eventstore.Result, error) {
	dialect, err := w.dialect(ctx, createOperation(len(docs)))
	if err != nil {
		return nil, err
	}
	body := bulkbody.New(w.stream, docs)
	defer body.Release()
	response, err := w.send(ctx, w.withoutRetries, createOperation(len(docs)), dialect.bulk(esapi.BulkRequest{
		Body:       body,
		Header:     http.Header{"Content-Type": {"application/x-ndjson"}},
		FilterPath: []string{"items.*._id", "items.*.status", "items.*.error"},
	}))
	if err != nil {
		return nil, err
	}
	return w.parseBulk(response, docs)
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
	case !doc.Stream.IsValid():
		return fmt.Sprintf("the document has an unknown stream %q", doc.Stream)
	}
	return ""
}

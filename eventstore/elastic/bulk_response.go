package elastic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic/internal/bulkbody"
	"github.com/watershipmq/watership/schemas"
)

type bulkItem struct {
	ID     string `json:"_id"`
	Status int    `json:"status"`
	Error  *cause `json:"error"`
}

// parseBulk parses a response, which must have an item for each document, in order.
func (w *writer) parseBulk(response []byte, docs []schemas.Document) ([]eventstore.Result, error) {
	results := make([]eventstore.Result, len(docs))
	if allCreated(response, docs) {
		for i := range results {
			results[i].Status = eventstore.Created
		}
		return results, nil
	}
	items, err := w.parseBulkItems(response, len(docs))
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		if item.ID != docs[i].ID {
			return nil, w.invalidResponse(createOperation(len(docs)), fmt.Sprintf("answered for document %q where %q was sent", item.ID, docs[i].ID))
		}
		results[i] = item.result()
	}
	return results, nil
}

// allCreated reports whether a response is, byte for byte, the one for documents that
// were all created. It nearly always is, and comparing costs a tenth of parsing.
func allCreated(response []byte, docs []schemas.Document) bool {
	rest, ok := bytes.CutPrefix(response, []byte(`{"items":[`))
	var want []byte
	for i, doc := range docs {
		want = want[:0]
		if i > 0 {
			want = append(want, ',')
		}
		want = append(want, `{"create":{"_id":`...)
		want = bulkbody.AppendID(want, doc.ID)
		want = append(want, `,"status":201}}`...)
		if rest, ok = bytes.CutPrefix(rest, want); !ok {
			return false
		}
	}
	return ok && string(rest) == "]}"
}

func (w *writer) parseBulkItems(response []byte, documents int) ([]bulkItem, error) {
	var bulk struct {
		Items []struct {
			Create bulkItem `json:"create"`
		} `json:"items"`
	}
	if err := json.Unmarshal(response, &bulk); err != nil {
		return nil, w.invalidResponse(createOperation(documents), "gave an answer that cannot be read: "+oneLine(err.Error()))
	}
	if len(bulk.Items) != documents {
		return nil, w.invalidResponse(createOperation(documents), fmt.Sprintf("answered for %d of %d documents", len(bulk.Items), documents))
	}
	items := make([]bulkItem, documents)
	for i, item := range bulk.Items {
		items[i] = item.Create
	}
	return items, nil
}

// result maps an item's status. The index comes from the error, which a conflict always
// has: asking for the item's own _index would make every response half as long again.
func (item bulkItem) result() eventstore.Result {
	switch {
	case item.Status == http.StatusCreated:
		return eventstore.Result{Status: eventstore.Created}
	case item.Status == http.StatusConflict:
		return eventstore.Result{Status: eventstore.Conflict, Index: item.index()}
	case item.Status == http.StatusBadRequest:
		return eventstore.Result{Status: eventstore.Refused, Reason: item.reason()}
	case item.Status == http.StatusTooManyRequests && exceedsIndexingPressure(item.reason()):
		return eventstore.Result{Status: eventstore.TooLarge, Reason: item.reason()}
	}
	// 429 and 5xx, but also 403 (a write block, a missing privilege) and 404 (a
	// missing template): the document is valid and can be sent again. An error of
	// the whole request would lose the results of the others, which may have been
	// created.
	return eventstore.Result{Status: eventstore.Busy, Reason: item.reason()}
}

func (item bulkItem) index() string {
	if item.Error == nil {
		return ""
	}
	return item.Error.Index
}

func (item bulkItem) reason() string {
	if item.Error == nil {
		return fmt.Sprintf("status %d without a reason", item.Status)
	}
	return item.Error.String()
}

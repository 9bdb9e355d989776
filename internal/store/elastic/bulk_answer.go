package elastic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/watershipmq/watership/schemas"
)

type bulkItem struct {
	ID     string `json:"_id"`
	Status int    `json:"status"`
	Error  *cause `json:"error"`
}

// readBulk reads an answer, which must be about each document, in order.
func (s *Store) readBulk(answer []byte, docs []schemas.Document) ([]schemas.Result, error) {
	results := make([]schemas.Result, len(docs))
	if allCreated(answer, docs) {
		for i := range results {
			results[i].Status = schemas.Created
		}
		return results, nil
	}
	items, err := s.parseBulk(answer, len(docs))
	if err != nil {
		return nil, err
	}
	for i, item := range items {
		if item.ID != docs[i].ID {
			return nil, s.nonsense(creating(len(docs)), fmt.Sprintf("answered for document %q where %q was sent", item.ID, docs[i].ID))
		}
		results[i] = item.result()
	}
	return results, nil
}

// allCreated says whether an answer is what Elasticsearch writes, byte for byte,
// when it has created everything. That is nearly always so, and comparing costs
// a tenth of parsing. Whatever else the answer is gets parsed.
func allCreated(answer []byte, docs []schemas.Document) bool {
	rest, ok := bytes.CutPrefix(answer, []byte(`{"items":[`))
	var want []byte
	for i, doc := range docs {
		want = want[:0]
		if i > 0 {
			want = append(want, ',')
		}
		want = append(want, `{"create":{"_id":`...)
		want = appendID(want, doc.ID)
		want = append(want, `,"status":201}}`...)
		if rest, ok = bytes.CutPrefix(rest, want); !ok {
			return false
		}
	}
	return ok && string(rest) == "]}"
}

func (s *Store) parseBulk(answer []byte, documents int) ([]bulkItem, error) {
	var bulk struct {
		Items []struct {
			Create bulkItem `json:"create"`
		} `json:"items"`
	}
	if err := json.Unmarshal(answer, &bulk); err != nil {
		return nil, s.nonsense(creating(documents), "gave an answer that cannot be read: "+oneLine(err.Error()))
	}
	if len(bulk.Items) != documents {
		return nil, s.nonsense(creating(documents), fmt.Sprintf("answered for %d of %d documents", len(bulk.Items), documents))
	}
	items := make([]bulkItem, documents)
	for i, item := range bulk.Items {
		items[i] = item.Create
	}
	return items, nil
}

// result says what an item's status means for the document. The index comes
// from the error, where a conflict always has it: the item's own _index would
// make every answer half as long again.
func (item bulkItem) result() schemas.Result {
	switch {
	case item.Status == http.StatusCreated:
		return schemas.Result{Status: schemas.Created}
	case item.Status == http.StatusConflict:
		return schemas.Result{Status: schemas.Conflict, Index: item.index()}
	case item.Status == http.StatusBadRequest:
		return schemas.Result{Status: schemas.Refused, Reason: item.reason()}
	case item.Status == http.StatusTooManyRequests && beyondPressure(item.reason()):
		return schemas.Result{Status: schemas.TooLarge, Reason: item.reason()}
	}
	// 429 and 5xx, but also 403 (a write block, a missing privilege) and 404 (a
	// missing template): no document is at fault and sending it again, later,
	// is right. They are not made an error of the request, since others in it
	// may have been created, and that must not be forgotten.
	return schemas.Result{Status: schemas.Busy, Reason: item.reason()}
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

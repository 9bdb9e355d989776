package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic/internal/bulkbody"
	"github.com/watershipmq/watership/schemas"
)

// Replace writes documents in place of quarantined ones, and returns a result for each,
// in order:
//
//   - Created: the document is in the store, and the quarantined one no longer is. It may
//     have been replaced before.
//   - Conflict: another event has the document's id. Nothing has changed.
//   - Refused, TooLarge, Busy: as for Create. The quarantined document is still there.
//     Refused is also the result if there is no such document.
//
// A document goes to the write index of its stream, whose mapping is the newest, and only
// then is the quarantined one deleted from its own index. If the write index has the
// quarantined one, it is overwritten. So an interruption can leave both, of which Events
// yields one, and the next Replace deletes the quarantined one.
//
// The login needs the privileges index and delete on both streams, which no other method
// needs.
func (w *writer) Replace(ctx context.Context, list []eventstore.Replacement) ([]eventstore.Result, error) {
	if len(list) == 0 {
		return nil, nil
	}
	if err := w.checkMayReplace(ctx); err != nil {
		return nil, err
	}
	stored, err := w.copies(ctx, list)
	if err != nil {
		return nil, err
	}
	r := replacing{list: list, stored: stored, results: make([]eventstore.Result, len(list))}
	missing := r.findMissing()
	created, err := w.Create(ctx, r.documents(missing))
	if err != nil {
		return nil, err
	}
	overwritten := r.addCreated(missing, created)
	if err := w.sendOperations(ctx, "overwriting quarantined documents", r.overwrites(overwritten)); err != nil {
		return nil, err
	}
	if err := w.sendOperations(ctx, "deleting quarantined documents", r.deletions(overwritten)); err != nil {
		return nil, err
	}
	return r.results, nil
}

func (w *writer) checkMayReplace(ctx context.Context) error {
	login, err := w.loginWith(ctx, privileges{
		Cluster: []string{}, Indices: []grant{{[]string{w.dataStream(schemas.Traffic), w.dataStream(schemas.Failures)}, []string{"index", "delete"}}},
	})
	if err == nil && len(login.Lacks) > 0 {
		err = &eventstore.Error{
			Kind:   eventstore.Unauthorized,
			Reason: fmt.Sprintf("replacing quarantined documents: the login %s lacks %s: see docs/permissions.md", login.User, login.Lacks[0]),
		}
	}
	return err
}

// storedCopy is a document of an id; each index has at most one.
type storedCopy struct {
	Index       string `json:"_index"`
	ID          string `json:"_id"`
	SeqNo       int64  `json:"_seq_no"`
	PrimaryTerm int64  `json:"_primary_term"`
	Source      struct {
		Event struct {
			Action   string `json:"action"`
			Sequence int64  `json:"sequence"`
		} `json:"event"`
		Watership struct {
			QuarantinedAction string `json:"quarantined_action"`
		} `json:"watership"`
	} `json:"_source"`
}

func (c storedCopy) quarantined() bool {
	return c.Source.Watership.QuarantinedAction != "" || c.Source.Event.Action == string(schemas.Quarantined)
}

func (c storedCopy) sequence() int64 { return c.Source.Event.Sequence }

// copies returns the documents with the ids of the quarantined documents and of their
// replacements, including the latest writes.
func (w *writer) copies(ctx context.Context, list []eventstore.Replacement) (map[string][]storedCopy, error) {
	const operation = "reading quarantined documents"
	if err := w.Refresh(ctx); err != nil {
		return nil, err
	}
	var ids []string
	for _, r := range list {
		ids = append(ids, r.Quarantined, r.Document.ID)
	}
	slices.Sort(ids)
	stored := map[string][]storedCopy{}
	for chunk := range slices.Chunk(slices.Compact(ids), idsPerSearch) {
		var response copiesResponse
		err := w.searchJSON(ctx, operation, map[string]any{
			"size": 10 * idsPerSearch, "track_total_hits": false, "seq_no_primary_term": true,
			"_source": []string{"event.action", "event.sequence", "watership.quarantined_action"},
			"query":   map[string]any{"ids": map[string]any{"values": chunk}},
		}, &response)
		if err == nil && (response.TimedOut || response.Shards.Failed > 0) {
			err = w.partialResponse(operation, response.Shards)
		}
		if err != nil {
			return nil, err
		}
		for _, c := range response.Hits.Hits {
			stored[c.ID] = append(stored[c.ID], c)
		}
	}
	return stored, nil
}

type copiesResponse struct {
	TimedOut bool   `json:"timed_out"`
	Shards   shards `json:"_shards"`
	Hits     struct {
		Hits []storedCopy `json:"hits"`
	} `json:"hits"`
}

// replacing is one call of Replace.
type replacing struct {
	list    []eventstore.Replacement
	stored  map[string][]storedCopy // by id
	results []eventstore.Result
}

func (r replacing) quarantined(i int) []storedCopy {
	return slices.DeleteFunc(slices.Clone(r.stored[r.list[i].Quarantined]), func(c storedCopy) bool { return !c.quarantined() })
}

// findMissing returns the positions of the documents that have to be written, and sets
// the results of the others.
func (r replacing) findMissing() []int {
	var missing []int
	for i, replacement := range r.list {
		written := slices.DeleteFunc(slices.Clone(r.stored[replacement.Document.ID]), storedCopy.quarantined)
		quarantined := r.quarantined(i)
		switch {
		case len(quarantined) == 0 && len(written) == 0:
			r.results[i] = eventstore.Result{Status: eventstore.Refused, Reason: "the quarantined document is no longer in the store"}
		case len(quarantined) == 0, slices.ContainsFunc(written, func(c storedCopy) bool { return c.sequence() == quarantined[0].sequence() }):
			r.results[i].Status = eventstore.Created
		case len(written) > 0:
			r.results[i] = eventstore.Result{Status: eventstore.Conflict, Index: written[0].Index}
		default:
			missing = append(missing, i)
		}
	}
	return missing
}

func (r replacing) documents(positions []int) []schemas.Document {
	list := make([]schemas.Document, len(positions))
	for n, i := range positions {
		list[n] = r.list[i].Document
	}
	return list
}

// addCreated sets the results of Create. It returns the quarantined documents whose index
// is the write index, by their positions: they conflict and are overwritten.
func (r replacing) addCreated(positions []int, created []eventstore.Result) map[int]storedCopy {
	overwritten := map[int]storedCopy{}
	for n, i := range positions {
		if r.results[i] = created[n]; created[n].Status != eventstore.Conflict {
			continue
		}
		quarantined := r.quarantined(i)
		at := slices.IndexFunc(quarantined, func(c storedCopy) bool { return c.Index == created[n].Index && c.ID == r.list[i].Document.ID })
		if at < 0 {
			r.results[i] = eventstore.Result{Status: eventstore.Busy, Reason: "another process has just written the document"}
			continue
		}
		overwritten[i] = quarantined[at]
	}
	return overwritten
}

// bulkOperation is a line of a bulk request, with its document if it has one. It fails if
// the stored document has changed
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/optimistic-concurrency-control.html).
type bulkOperation struct {
	name   string
	on     storedCopy
	source []byte
	result *eventstore.Result
}

func (r replacing) overwrites(overwritten map[int]storedCopy) []bulkOperation {
	var operations []bulkOperation
	for i, stored := range overwritten {
		operations = append(operations, bulkOperation{"index", stored, r.list[i].Document.Source, &r.results[i]})
	}
	return operations
}

// deletions deletes the quarantined documents whose replacements are in the store.
func (r replacing) deletions(overwritten map[int]storedCopy) []bulkOperation {
	var operations []bulkOperation
	for i, result := range r.results {
		if result.Status != eventstore.Created {
			continue
		}
		for _, stored := range r.quarantined(i) {
			if stored.Index != overwritten[i].Index {
				operations = append(operations, bulkOperation{"delete", stored, nil, &r.results[i]})
			}
		}
	}
	return operations
}

// sendOperations sends operations on single indices, and sets their results.
func (w *writer) sendOperations(ctx context.Context, operation string, operations []bulkOperation) error {
	if len(operations) == 0 {
		return nil
	}
	var body []byte
	for _, o := range operations {
		body = o.append(body)
	}
	response, err := w.send(ctx, w.withoutRetries, operation, esapi.BulkRequest{
		Body:       bytes.NewReader(body),
		Header:     http.Header{"Content-Type": {"application/x-ndjson"}},
		FilterPath: []string{"items.*._id", "items.*.status", "items.*.error"},
	})
	if err != nil {
		return err
	}
	var bulk struct {
		Items []map[string]bulkItem `json:"items"`
	}
	if err := json.Unmarshal(response, &bulk); err != nil {
		return w.invalidResponse(operation, "gave an answer that cannot be read: "+oneLine(err.Error()))
	}
	if len(bulk.Items) != len(operations) {
		return w.invalidResponse(operation, fmt.Sprintf("answered for %d of %d documents", len(bulk.Items), len(operations)))
	}
	for n, o := range operations {
		*o.result = o.resultOf(bulk.Items[n][o.name])
	}
	return nil
}

func (o bulkOperation) append(dst []byte) []byte {
	action, _ := json.Marshal(map[string]any{o.name: map[string]any{ // texts and numbers always marshal
		"_index": o.on.Index, "_id": o.on.ID, "if_seq_no": o.on.SeqNo, "if_primary_term": o.on.PrimaryTerm,
	}})
	dst = append(append(dst, action...), '\n')
	if o.source != nil {
		begin := len(dst)
		dst = append(dst, o.source...)
		bulkbody.ReplaceLineBreaks(dst[begin:])
		dst = append(dst, '\n')
	}
	return dst
}

// resultOf returns Busy for a document that another process has changed since it was read.
func (o bulkOperation) resultOf(item bulkItem) eventstore.Result {
	gone := o.name == "delete" && item.Status == http.StatusNotFound
	switch {
	case item.Status == http.StatusOK, gone && item.Error == nil:
		return eventstore.Result{Status: eventstore.Created}
	case item.Status == http.StatusConflict:
		return eventstore.Result{Status: eventstore.Busy, Reason: item.reason()}
	}
	return item.result()
}

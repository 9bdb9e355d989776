package elastic

import (
	"context"
	"encoding/json"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic/internal/querydsl"
)

// Sequences reads event.sequence of documents. Missing ones are absent from the result.
// It needs no refresh. It is one request, for some thousands of documents at most.
func (r *reader) Sequences(ctx context.Context, stored []eventstore.DocumentID) (map[eventstore.DocumentID]int64, error) {
	sequences := make(map[eventstore.DocumentID]int64, len(stored))
	if len(stored) == 0 {
		return sequences, nil
	}
	const operation = "reading the sequences of documents"
	var response struct {
		Docs []getResult `json:"docs"`
	}
	request := esapi.MgetRequest{Body: asJSON(map[string]any{"docs": multiGetItems(stored)}), SourceIncludes: []string{"event.sequence"}}
	if err := r.requestJSON(ctx, operation, request, &response); err != nil {
		return nil, err
	}
	for _, doc := range response.Docs {
		if doc.failed() {
			return nil, r.invalidResponse(operation, "failed for document "+doc.ID+": "+doc.Error.String())
		}
		if doc.Found {
			sequences[eventstore.DocumentID{Index: doc.Index, ID: doc.ID}] = doc.Source.Event.Sequence
		}
	}
	return sequences, nil
}

func multiGetItems(stored []eventstore.DocumentID) []map[string]string {
	list := make([]map[string]string, len(stored))
	for i, doc := range stored {
		list[i] = map[string]string{"_index": doc.Index, "_id": doc.ID}
	}
	return list
}

// getResult is one document of a multi-get response.
type getResult struct {
	Index  string `json:"_index"`
	ID     string `json:"_id"`
	Found  bool   `json:"found"`
	Error  *cause `json:"error"`
	Source struct {
		Event struct {
			Sequence int64 `json:"sequence"`
		} `json:"event"`
	} `json:"_source"`
}

// failed is false for a document of a deleted index, which is just missing.
func (g getResult) failed() bool {
	return g.Error != nil && g.Error.Type != "index_not_found_exception"
}

// HighestSequence is the highest event.sequence of all documents up to
// eventstore.MaxSequence, 0 if none exists.
func (r *reader) HighestSequence(ctx context.Context) (int64, error) {
	return r.searchHighest(ctx, "reading the highest sequence")
}

// HighestSequenceOf is the highest event.sequence of the documents of a source up to
// eventstore.MaxSequence, 0 if none exists.
func (r *reader) HighestSequenceOf(ctx context.Context, source string) (int64, error) {
	return r.searchHighest(ctx, "reading the highest sequence of "+source,
		map[string]any{"term": map[string]any{"watership.source": source}})
}

func (r *reader) searchHighest(ctx context.Context, operation string, filters ...map[string]any) (int64, error) {
	if err := r.Refresh(ctx); err != nil {
		return 0, err
	}
	response, err := r.search(ctx, operation, r.dataStreams(), map[string]any{
		// A max aggregation would return a float64, which is not exact.
		"size":             1,
		"_source":          false,
		"track_total_hits": false,
		"query":            querydsl.Bool("filter", append(filters, map[string]any{"range": map[string]any{"event.sequence": map[string]any{"lte": int64(eventstore.MaxSequence)}}})),
		"sort":             []any{sortBy("event.sequence", "desc", "long")},
	})
	if err != nil || len(response.Hits) == 0 {
		return 0, err
	}
	var highest int64
	if err := json.Unmarshal(response.Hits[0].Sort[0], &highest); err != nil {
		return 0, r.invalidResponse(operation, "gave one that is no number: "+err.Error())
	}
	return highest, nil
}

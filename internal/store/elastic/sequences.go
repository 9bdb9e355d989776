package elastic

import (
	"context"
	"encoding/json"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/schemas"
)

// Sequences reads event.sequence of documents, also of those that were created
// a moment ago: a get needs no refresh. One that is not there, or whose index is
// gone, is absent from the answer. It is one request: for some
// thousands of documents at most.
func (s *Store) Sequences(ctx context.Context, stored []schemas.Stored) (map[schemas.Stored]int64, error) {
	sequences := make(map[schemas.Stored]int64, len(stored))
	if len(stored) == 0 {
		return sequences, nil
	}
	const doing = "reading the sequences of documents that are there"
	var answer struct {
		Docs []gotten `json:"docs"`
	}
	request := esapi.MgetRequest{Body: asJSON(map[string]any{"docs": places(stored)}), SourceIncludes: []string{"event.sequence"}}
	if err := s.ask(ctx, doing, request, &answer); err != nil {
		return nil, err
	}
	for _, doc := range answer.Docs {
		if doc.unknown() {
			return nil, s.nonsense(doing, "failed for document "+doc.ID+": "+doc.Error.String())
		}
		if doc.Found {
			sequences[schemas.Stored{Index: doc.Index, ID: doc.ID}] = doc.Source.Event.Sequence
		}
	}
	return sequences, nil
}

func places(stored []schemas.Stored) []map[string]string {
	list := make([]map[string]string, len(stored))
	for i, doc := range stored {
		list[i] = map[string]string{"_index": doc.Index, "_id": doc.ID}
	}
	return list
}

// gotten is one document of an answer to a multi get.
type gotten struct {
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

// unknown says that whether the document is there could not be found out. One
// whose index was deleted is not there.
func (g gotten) unknown() bool {
	return g.Error != nil && g.Error.Type != "index_not_found_exception"
}

// HighestSequence is the highest event.sequence of all documents that were
// created so far, 0 if there are none. Those above schemas.MaxSequence do not count.
func (s *Store) HighestSequence(ctx context.Context) (int64, error) {
	return s.highest(ctx, "reading the highest sequence")
}

// HighestSequenceOf is the highest event.sequence of the documents of a source that
// were created so far, 0 if there are none.
func (s *Store) HighestSequenceOf(ctx context.Context, source string) (int64, error) {
	return s.highest(ctx, "reading the highest sequence of "+source,
		map[string]any{"term": map[string]any{"watership.source": source}})
}

func (s *Store) highest(ctx context.Context, doing string, filters ...map[string]any) (int64, error) {
	if err := s.Refresh(ctx); err != nil {
		return 0, err
	}
	answer, err := s.search(ctx, doing, s.both(), map[string]any{
		// Not an aggregation: its maximum is a float64, and not exact.
		"size":             1,
		"_source":          false,
		"track_total_hits": false,
		"query":            boolean("filter", append(filters, map[string]any{"range": map[string]any{"event.sequence": map[string]any{"lte": int64(schemas.MaxSequence)}}})),
		"sort":             []any{by("event.sequence", "desc", "long")},
	})
	if err != nil || len(answer.Hits) == 0 {
		return 0, err
	}
	var highest int64
	if err := json.Unmarshal(answer.Hits[0].Sort[0], &highest); err != nil {
		return 0, s.nonsense(doing, "gave one that is no number: "+err.Error())
	}
	return highest, nil
}

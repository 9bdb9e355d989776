package elastic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/schemas"
)

// filter is Elasticsearch's query for what a selection wants. Nothing is
// scored: events are sorted by their time or their sequence.
func (s *Store) filter(sel schemas.Selection) map[string]any {
	clauses := []map[string]any{Compile(sel.Query, s.fields)}
	if sel.UpTo != 0 {
		clauses = append(clauses, sequence("lte", sel.UpTo))
	}
	if sel.Order == schemas.BySequence && sel.After != (schemas.Cursor{}) {
		clauses = append(clauses, behind(sel.After))
	}
	return boolean("filter", clauses)
}

func sequence(op string, value int64) map[string]any {
	return map[string]any{"range": map[string]any{"event.sequence": map[string]any{op: value}}}
}

// behind a cursor are higher sequences, and of its own the higher ids.
func behind(c schemas.Cursor) map[string]any {
	return anyOf([]map[string]any{
		sequence("gt", c.Sequence),
		boolean("filter", []map[string]any{
			{"term": map[string]any{"event.sequence": c.Sequence}},
			{"range": map[string]any{"event.id": map[string]any{"gt": c.EventID}}},
		}),
	})
}

// search gives all that there is or an error: an answer from only some shards
// would look like an answer. Streams that are not there yet are empty. indices
// is nil for a search in a point in time.
func (s *Store) search(ctx context.Context, doing string, indices []string, body map[string]any) (searchAnswer, error) {
	return s.searchWith(ctx, doing, indices, body, &bytes.Buffer{}, rawSource)
}

// searchWith says as well where the text of the answer is kept while it is read,
// and what of the documents is wanted. A search whose answer breaks off is asked
// once more, as the transport does where none begins.
func (s *Store) searchWith(ctx context.Context, doing string, indices []string, body map[string]any,
	text *bytes.Buffer, source source,
) (searchAnswer, error) {
	err := s.sendInto(ctx, s.patient, doing, searchRequest(indices, body), text)
	var broken *brokenOffError
	if errors.As(err, &broken) && ctx.Err() == nil {
		err = s.sendInto(ctx, s.patient, doing, searchRequest(indices, body), text)
	}
	if err != nil {
		return searchAnswer{}, beyondLimit(doing, err)
	}
	answer, err := readAnswer(text.Bytes(), source)
	if err != nil {
		return answer, s.nonsense(doing, "gave an answer that cannot be read: "+oneLine(err.Error()))
	}
	if answer.TimedOut || answer.Shards.Failed > 0 {
		return answer, s.nonsense(doing, fmt.Sprintf("answered in part only: %d of %d shards failed, timed out: %t",
			answer.Shards.Failed, answer.Shards.Total, answer.TimedOut))
	}
	return answer, nil
}

func searchRequest(indices []string, body map[string]any) esapi.SearchRequest {
	request := esapi.SearchRequest{Index: indices, Body: asJSON(body), AllowPartialSearchResults: new(bool), Header: uncompressed()}
	if indices != nil {
		request.IgnoreUnavailable = yes() // not allowed in a point in time, which settled it
	}
	return request
}

// uncompressed has Elasticsearch answer without gzip, which takes more of its
// time and ours than all else about a page of messages.
func uncompressed() http.Header { return http.Header{"Accept-Encoding": {"identity"}} }

// Count says how many documents a selection has that can be found by now (see
// Refresh). Order, Limit and WithoutBody do not matter to it. A document that
// is in two indices, which Events would give once, counts twice.
func (s *Store) Count(ctx context.Context, sel schemas.Selection) (int64, error) {
	answer, err := s.search(ctx, "counting events", s.both(), map[string]any{
		"size":             0,
		"track_total_hits": true,
		"query":            s.filter(sel),
	})
	return answer.Total, err
}

// Refresh makes everything that was created so far visible to Events and
// Count. Without it that takes a second (index.refresh_interval).
func (s *Store) Refresh(ctx context.Context) error {
	const doing = "making new documents visible"
	var answer struct {
		Shards shards `json:"_shards"`
	}
	request := esapi.IndicesRefreshRequest{Index: s.both(), IgnoreUnavailable: yes()}
	if err := s.ask(ctx, doing, request, &answer); err != nil {
		return err
	}
	if answer.Shards.Failed > 0 {
		return s.nonsense(doing, fmt.Sprintf("failed to in %d of %d shards", answer.Shards.Failed, answer.Shards.Total))
	}
	return nil
}

package elastic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic/internal/querydsl"
	"github.com/watershipmq/watership/eventstore/kql"
)

// reader reads events.
type reader struct {
	*client
	fields kql.Fields
}

// filter compiles a selection to a query. It needs no scores: events are sorted by time
// or sequence.
func (r *reader) filter(sel eventstore.Selection) map[string]any {
	clauses := []map[string]any{querydsl.Compile(sel.Query, r.fields)}
	if sel.UpTo != 0 {
		clauses = append(clauses, sequenceRange("lte", sel.UpTo))
	}
	switch {
	case sel.After == (eventstore.Cursor{}):
	case sel.Order == eventstore.BySequence:
		clauses = append(clauses, afterCursor(sel.After))
	case sel.Order.Time() != "":
		clauses = append(clauses, fasterThanCursor(sel))
	default:
		clauses = append(clauses, olderThanCursor(sel.After))
	}
	return querydsl.Bool("filter", clauses)
}

func sequenceRange(op string, value int64) map[string]any {
	return map[string]any{"range": map[string]any{"event.sequence": map[string]any{op: value}}}
}

// afterCursor matches higher sequences, and higher ids of the cursor's own sequence.
func afterCursor(c eventstore.Cursor) map[string]any {
	return querydsl.AnyOf([]map[string]any{sequenceRange("gt", c.Sequence), higherID(c)})
}

// olderThanCursor matches earlier times, and lower sequences and higher ids of the
// cursor's own time.
func olderThanCursor(c eventstore.Cursor) map[string]any {
	atTime := func(op string) map[string]any {
		return map[string]any{"range": map[string]any{"@timestamp": map[string]any{op: c.Time.UnixMilli(), "format": "epoch_millis"}}}
	}
	return querydsl.Bool("filter", []map[string]any{atTime("lte"), querydsl.AnyOf([]map[string]any{atTime("lt"), sequenceRange("lt", c.Sequence), higherID(c)})})
}

// fasterThanCursor matches shorter times of work, and lower sequences and higher ids of the
// cursor's own time.
func fasterThanCursor(sel eventstore.Selection) map[string]any {
	took := func(op string) map[string]any {
		return map[string]any{"range": map[string]any{sel.Order.Time(): map[string]any{op: sel.After.Took(sel.Order).Nanoseconds()}}}
	}
	c := sel.After
	return querydsl.Bool("filter", []map[string]any{took("lte"), querydsl.AnyOf([]map[string]any{took("lt"), sequenceRange("lt", c.Sequence), higherID(c)})})
}

// higherID matches higher ids of the cursor's own sequence.
func higherID(c eventstore.Cursor) map[string]any {
	return querydsl.Bool("filter", []map[string]any{{"term": map[string]any{"event.sequence": c.Sequence}}, {"range": map[string]any{"event.id": map[string]any{"gt": c.EventID}}}})
}

// search returns an error for partial results, which would look complete. Missing
// streams are empty. indices is nil for a search in a point in time.
func (c *client) search(ctx context.Context, operation string, indices []string, body map[string]any) (searchResponse, error) {
	return c.searchWith(ctx, operation, indices, body, &bytes.Buffer{}, readRawSource)
}

// searchWith reads the response into a buffer, and its sources with read.
func (c *client) searchWith(ctx context.Context, operation string, indices []string, body map[string]any,
	text *bytes.Buffer, read sourceReader,
) (searchResponse, error) {
	if err := c.searchInto(ctx, operation, indices, body, text); err != nil {
		return searchResponse{}, err
	}
	response, err := parseSearch(text.Bytes(), read)
	return response, response.check(c, operation, err)
}

// check returns an error for a response that cannot be read, or has only a part of the result.
func (a answered) check(c *client, operation string, err error) error {
	switch {
	case err != nil:
		return c.invalidResponse(operation, "gave an answer that cannot be read: "+oneLine(err.Error()))
	case a.TimedOut || a.Shards.Failed > 0:
		return c.invalidResponse(operation, fmt.Sprintf("answered in part only: %d of %d shards failed, timed out: %t", a.Shards.Failed, a.Shards.Total, a.TimedOut))
	}
	return nil
}

// searchInto replaces the content of a buffer by the response. It repeats a request whose response is truncated, as
// the transport does without a response.
func (c *client) searchInto(ctx context.Context, operation string, indices []string, body map[string]any, text *bytes.Buffer) error {
	limit := maxDocuments
	if body["_source"] == false || body["size"] == 0 {
		limit = maxResponse
	}
	err := c.sendInto(ctx, c.withRetries, operation, searchRequest(indices, body), text, limit)
	var broken *truncatedError
	if errors.As(err, &broken) && ctx.Err() == nil {
		err = c.sendInto(ctx, c.withRetries, operation, searchRequest(indices, body), text, limit)
	}
	return explainLimit(operation, err)
}

func searchRequest(indices []string, body map[string]any) esapi.SearchRequest {
	request := esapi.SearchRequest{Index: indices, Body: asJSON(body), AllowPartialSearchResults: new(bool), Header: uncompressed()}
	if indices != nil {
		request.IgnoreUnavailable = new(true) // not allowed in a point in time
	}
	return request
}

// uncompressed disables gzip, which costs both sides more than all the rest of a page
// of messages.
func uncompressed() http.Header { return http.Header{"Accept-Encoding": {"identity"}} }

// Count counts the visible documents of a selection (see Refresh). It ignores Order,
// Limit and WithoutBody. A document in two indices counts twice, although Events
// yields it once.
func (r *reader) Count(ctx context.Context, sel eventstore.Selection) (int64, error) {
	response, err := r.search(ctx, "counting events", r.dataStreams(), map[string]any{"size": 0, "track_total_hits": true, "query": r.filter(sel)})
	return response.Total, err
}

// Refresh makes all created documents visible to Events and Count. Elasticsearch does
// so itself after a second (index.refresh_interval).
func (c *client) Refresh(ctx context.Context) error {
	const operation = "refreshing"
	var response struct {
		Shards shards `json:"_shards"`
	}
	request := esapi.IndicesRefreshRequest{Index: c.dataStreams(), IgnoreUnavailable: new(true)}
	if err := c.requestJSON(ctx, operation, request, &response); err != nil {
		return err
	}
	if response.Shards.Failed > 0 {
		return c.invalidResponse(operation, fmt.Sprintf("failed to in %d of %d shards", response.Shards.Failed, response.Shards.Total))
	}
	return nil
}

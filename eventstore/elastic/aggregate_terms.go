package elastic

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic/internal/querydsl"
	"github.com/watershipmq/watership/eventstore/kql"
)

// maxTerms is the number of different values up to which a field without doc_values is counted by
// its index: each value costs a lookup in each segment. Sources of few documents take less.
const maxTerms = 5000

// maxTermBytes bounds the request with the values, which has each twice.
const maxTermBytes = 1 << 20

// countByIndex is TopValues for a field that has an index and no doc_values: it lists the values in
// the index, and counts each by a query. It is false if the field has too many values for that,
// or others than those that the index lists.
func (r *reader) countByIndex(ctx context.Context, sel eventstore.Selection, field kql.Field, n int) (tally eventstore.Aggregation, counted bool, err error) {
	terms, err := r.termsOf(ctx, field)
	if err != nil || len(terms) == 0 || len(terms) > maxTerms || lengthOf(terms) > maxTermBytes {
		return tally, false, err
	}
	filters := make([]any, len(terms))
	for i, term := range terms {
		filters[i] = map[string]any{"term": map[string]any{field.Name: term}}
	}
	exists := map[string]any{"exists": map[string]any{"field": field.Name}}
	response, err := r.aggregate(ctx, "counting the values of "+field.Name, sel, map[string]any{
		"values":  map[string]any{"filters": map[string]any{"filters": filters}},
		"without": map[string]any{"filter": querydsl.Bool("must_not", exists)},
		"unknown": map[string]any{"filter": map[string]any{"bool": map[string]any{"filter": exists, "must_not": querydsl.Terms(field.Name, terms)}}},
	})
	found := response.Aggregations
	if err != nil || found.Unknown.Count > 0 || len(found.Values.Buckets) != len(terms) {
		return tally, false, err
	}
	var values []eventstore.Bucket
	for i, b := range found.Values.Buckets {
		if b.Count > 0 {
			values = append(values, eventstore.Bucket{Text: terms[i], Count: b.Count})
		}
	}
	slices.SortFunc(values, func(a, b eventstore.Bucket) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Text, b.Text))
	})
	tally.Without = found.Without.Count
	tally.Values = values[:min(n, len(values))]
	for _, b := range values[len(tally.Values):] {
		tally.Others += b.Count
	}
	return tally, true, nil
}

func lengthOf(terms []string) (n int) {
	for _, term := range terms {
		n += len(term)
	}
	return n
}

// termsOf returns the values of a field in the indices of all events, up to some more than maxTerms.
func (r *reader) termsOf(ctx context.Context, field kql.Field) ([]string, error) {
	terms := map[string]bool{}
	for _, stream := range r.dataStreams() {
		listed, err := r.termsIn(ctx, stream, field)
		if err != nil {
			return nil, err
		}
		for _, term := range listed {
			terms[term] = true
		}
	}
	return slices.Sorted(maps.Keys(terms)), nil
}

// termsIn returns none if the stream is missing, or the server does not list its values.
func (r *reader) termsIn(ctx context.Context, stream string, field kql.Field) ([]string, error) {
	var response struct {
		Shards   shards   `json:"_shards"`
		Terms    []string `json:"terms"`
		Complete bool     `json:"complete"`
	}
	body := asJSON(map[string]any{"field": field.Name, "size": maxTerms + 1, "timeout": "5s"})
	err := r.requestJSON(ctx, "listing the values of "+field.Name, esapi.TermsEnumRequest{Index: []string{stream}, Body: body}, &response)
	var refused *eventstore.Error
	if errors.As(err, &refused) && (refused.Kind == eventstore.BadRequest || refused.Kind == eventstore.Unauthorized) {
		return nil, nil
	}
	if err != nil || !response.Complete || response.Shards.Failed > 0 {
		return nil, err
	}
	return response.Terms, nil
}

// isFew reports whether a selection has at most a page of documents.
func (r *reader) isFew(ctx context.Context, sel eventstore.Selection) (bool, error) {
	response, err := r.search(ctx, "counting events", r.dataStreams(), map[string]any{
		"size": 0, "track_total_hits": maxPage + 1, "query": r.filter(sel),
	})
	return response.Total <= maxPage, err
}

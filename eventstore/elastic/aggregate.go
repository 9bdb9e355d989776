package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic/internal/querydsl"
	"github.com/watershipmq/watership/eventstore/elastic/internal/sourcevalues"
)

// minShardSize is the minimum shard_size of a terms aggregation. The counts are exact
// for fields with fewer values.
const minShardSize = 1000

// TopValues counts the n most frequent values of a field of any type but text and date.
// It ignores Order and Limit of the selection. A list counts once for each of its
// values.
//
// Fields without doc_values are counted by queries for each of their values. If they have more than
// 5,000, they are counted here, by the sources of the documents. That takes about twenty seconds
// for a million of them. An error leaves the counts so far.
func (r *reader) TopValues(ctx context.Context, sel eventstore.Selection, field string, n int) (eventstore.Aggregation, error) {
	operation := "counting the values of " + field
	if known, _ := r.fields.Lookup(field); sourcevalues.Needed(known) {
		few, err := r.isFew(ctx, sel)
		if err != nil {
			return eventstore.Aggregation{}, err
		}
		if !few {
			if counted, done, err := r.countByIndex(ctx, sel, known, n); done || err != nil {
				return counted, err
			}
		}
		return r.countInSources(ctx, sel, known, n)
	}
	terms := map[string]any{"field": field, "size": n, "shard_size": max(minShardSize, 10*n)}
	response, err := r.aggregate(ctx, operation, sel, map[string]any{
		"values":  map[string]any{"terms": terms},
		"without": map[string]any{"filter": querydsl.Bool("must_not", map[string]any{"exists": map[string]any{"field": field}})},
	})
	if err != nil {
		return eventstore.Aggregation{}, err
	}
	values := response.Aggregations.Values
	tally := eventstore.Aggregation{Others: values.Others, Without: response.Aggregations.Without.Count, Inexact: values.Inexact}
	for _, b := range values.Buckets {
		tally.Values = append(tally.Values, eventstore.Bucket{Text: b.text(), Count: b.Count})
	}
	return tally, nil
}

// Present returns the values, of some of a keyword, which an event of a selection has. It ignores Order
// and Limit of the selection. The field needs doc_values.
func (r *reader) Present(ctx context.Context, sel eventstore.Selection, of eventstore.FieldIn) (map[string]bool, error) {
	present := map[string]bool{}
	if len(of.Values) == 0 {
		return present, nil
	}
	response, err := r.aggregate(ctx, "looking for values of "+of.Field, sel, map[string]any{
		"values": map[string]any{"terms": map[string]any{"field": of.Field, "include": of.Values, "size": len(of.Values)}},
	})
	for _, b := range response.Aggregations.Values.Buckets {
		present[b.text()] = true
	}
	return present, err
}

func (r *reader) aggregate(ctx context.Context, operation string, sel eventstore.Selection, aggregations map[string]any) (aggregationResponse, error) {
	var response aggregationResponse
	err := r.searchJSON(ctx, operation, map[string]any{
		"size":             0,
		"track_total_hits": false,
		"query":            r.filter(sel),
		"aggs":             aggregations,
	}, &response)
	if err == nil && (response.TimedOut || response.Shards.Failed > 0) {
		err = r.partialResponse(operation, response.Shards)
	}
	return response, err
}

type aggregationResponse struct {
	TimedOut     bool   `json:"timed_out"`
	Shards       shards `json:"_shards"`
	Aggregations struct {
		Values struct {
			Others  int64    `json:"sum_other_doc_count"`
			Inexact int64    `json:"doc_count_error_upper_bound"`
			Buckets []bucket `json:"buckets"`
		} `json:"values"`
		Without struct {
			Count int64 `json:"doc_count"`
		} `json:"without"`
		Unknown struct {
			Count int64 `json:"doc_count"`
		} `json:"unknown"`
		First, Last extreme
		Actions     struct {
			Buckets []struct {
				Times struct {
					Buckets []bucket `json:"buckets"`
				} `json:"times"`
			} `json:"buckets"`
		} `json:"actions"`
	} `json:"aggregations"`
}

// extreme is a minimum or maximum; nil if no document has a value.
type extreme struct {
	Value *float64 `json:"value"`
}

type bucket struct {
	Key    json.RawMessage `json:"key"`
	AsText string          `json:"key_as_string"`
	Count  int64           `json:"doc_count"`
}

func (b bucket) text() string {
	var text string
	switch {
	case b.AsText != "":
		return b.AsText
	case json.Unmarshal(b.Key, &text) == nil:
		return text
	}
	return strings.TrimSuffix(string(b.Key), ".0")
}

func (c *client) partialResponse(operation string, shards shards) error {
	return c.invalidResponse(operation, fmt.Sprintf("answered in part only: %d of %d shards failed", shards.Failed, shards.Total))
}

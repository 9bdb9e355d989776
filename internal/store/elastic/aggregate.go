package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/watershipmq/watership/schemas"
)

// shardValues is how many values each shard names at least: with so many, the
// counts are exact for any field that a person would count by.
const shardValues = 1000

// Top counts the n most frequent values of a field, which must be one that
// Elasticsearch can count by: no text and no date. Order and Limit of the
// selection do not matter to it. A field that is a list counts once for each
// of its values.
func (s *Store) Top(ctx context.Context, sel schemas.Selection, field string, n int) (schemas.Tally, error) {
	doing := "counting the values of " + field
	terms := map[string]any{"field": field, "size": n, "shard_size": max(shardValues, 10*n)}
	answer, err := s.aggregate(ctx, doing, sel, map[string]any{
		"values":  map[string]any{"terms": terms},
		"without": map[string]any{"filter": boolean("must_not", map[string]any{"exists": map[string]any{"field": field}})},
	})
	if err != nil {
		return schemas.Tally{}, err
	}
	values := answer.Aggregations.Values
	tally := schemas.Tally{Others: values.Others, Without: answer.Aggregations.Without.Count, Inexact: values.Inexact}
	for _, b := range values.Buckets {
		tally.Values = append(tally.Values, schemas.Value{Text: b.text(), Count: b.Count})
	}
	return tally, nil
}

func (s *Store) aggregate(ctx context.Context, doing string, sel schemas.Selection, aggregations map[string]any) (aggregateAnswer, error) {
	var answer aggregateAnswer
	err := s.searchInto(ctx, doing, map[string]any{
		"size":             0,
		"track_total_hits": false,
		"query":            s.filter(sel),
		"aggs":             aggregations,
	}, &answer)
	if err == nil && (answer.TimedOut || answer.Shards.Failed > 0) {
		err = s.partial(doing, answer.Shards)
	}
	return answer, err
}

type aggregateAnswer struct {
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
		First, Last extreme
	} `json:"aggregations"`
}

// extreme is the lowest or highest value; nil where there is none.
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

func (s *Store) partial(doing string, of shards) error {
	return s.nonsense(doing, fmt.Sprintf("answered in part only: %d of %d shards failed", of.Failed, of.Total))
}

package elastic

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/watershipmq/watership/eventstore"
)

// Percentiles returns the percentiles of fields that are numbers, for each of the n most
// frequent values of a keyword. It ignores Order and Limit of the selection.
func (r *reader) Percentiles(ctx context.Context, sel eventstore.Selection, by string, n int, fields ...string) (eventstore.PercentilesBy, error) {
	operation := "computing percentiles by " + by
	nested := map[string]any{}
	for i, field := range fields {
		nested[fmt.Sprint("percentiles", i)] = map[string]any{"percentiles": map[string]any{
			"field": field, "percents": []int{50, 95, 99}, "keyed": false, "hdr": map[string]any{"number_of_significant_value_digits": 2},
		}}
		nested[fmt.Sprint("count", i)] = map[string]any{"value_count": map[string]any{"field": field}}
		nested[fmt.Sprint("max", i)] = map[string]any{"max": map[string]any{"field": field}}
	}
	terms := map[string]any{"field": by, "size": n, "shard_size": max(minShardSize, 10*n)}
	var response percentilesResponse
	err := r.searchJSON(ctx, operation, map[string]any{
		"size": 0, "track_total_hits": false, "query": r.filter(sel),
		"aggs": map[string]any{"values": map[string]any{"terms": terms, "aggs": nested}},
	}, &response)
	if err == nil && (response.TimedOut || response.Shards.Failed > 0) {
		err = r.partialResponse(operation, response.Shards)
	}
	if err != nil {
		return eventstore.PercentilesBy{}, err
	}
	found := eventstore.PercentilesBy{Others: response.Aggregations.Values.Others}
	for _, b := range response.Aggregations.Values.Buckets {
		value, err := b.value(len(fields))
		if err != nil {
			return found, r.invalidResponse(operation, "gave an answer that cannot be read: "+oneLine(err.Error()))
		}
		found.Values = append(found.Values, value)
	}
	return found, nil
}

type percentilesResponse struct {
	TimedOut     bool   `json:"timed_out"`
	Shards       shards `json:"_shards"`
	Aggregations struct {
		Values struct {
			Others  int64               `json:"sum_other_doc_count"`
			Buckets []percentilesBucket `json:"buckets"`
		} `json:"values"`
	} `json:"aggregations"`
}

// percentilesBucket has the key and the count of a bucket, and its aggregations by name.
type percentilesBucket map[string]json.RawMessage

func (b percentilesBucket) value(fields int) (v eventstore.ValuePercentiles, err error) {
	if err := json.Unmarshal(b["key"], &v.Text); err != nil {
		return v, err
	}
	if err := json.Unmarshal(b["doc_count"], &v.Count); err != nil {
		return v, err
	}
	for i := range fields {
		p, err := b.field(i)
		if err != nil {
			return v, err
		}
		v.Fields = append(v.Fields, p)
	}
	return v, nil
}

func (b percentilesBucket) field(i int) (p eventstore.Percentiles, err error) {
	var count struct{ Value int64 }
	var highest extreme
	var percentiles struct {
		Values []extreme `json:"values"` // in the order of the request
	}
	for name, into := range map[string]any{"count": &count, "max": &highest, "percentiles": &percentiles} {
		if err := json.Unmarshal(b[fmt.Sprint(name, i)], into); err != nil {
			return p, err
		}
	}
	if count.Value == 0 || highest.Value == nil || len(percentiles.Values) != 3 {
		return p, nil
	}
	p = eventstore.Percentiles{Count: count.Value, Max: int64(*highest.Value)}
	for at, into := range []*int64{&p.P50, &p.P95, &p.P99} {
		if value := percentiles.Values[at].Value; value != nil {
			*into = min(int64(*value), p.Max)
		}
	}
	return p, nil
}

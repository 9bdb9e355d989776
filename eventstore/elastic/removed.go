package elastic

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic/internal/querydsl"
	"github.com/watershipmq/watership/schemas"
)

// removals says what retention has removed. Elasticsearch deletes backing indices by itself, so that
// the highest sequences in each are noted while it is there. One record has all of it.
type removals struct {
	Indices map[string]indexMark        `json:"indices"`
	Removed map[string]eventstore.Marks `json:"removed"` // by source
}

// indexMark has the highest event.sequence in a backing index by source.
type indexMark struct {
	Stream  schemas.Stream   `json:"stream"`
	Highest map[string]int64 `json:"highest"`

	// RolledOver: the index gets no documents any more. Complete: it got none since before Highest
	// was read.
	RolledOver bool `json:"rolled_over,omitempty"`
	Complete   bool `json:"complete,omitempty"`
}

// removalsID is the id of the record.
const removalsID = "all"

// retention notes in a record what Elasticsearch removes.
type retention struct {
	*client
	records   records
	rules     eventstore.KeepRules
	retention retentions
}

// Retain notes which events Elasticsearch has removed, and will remove later, for Removed. The server
// calls it every minute. Elasticsearch removes the events, so their number is 0. OpenSearch has no
// lifecycle: there Retain removes them.
func (r *retention) Retain(ctx context.Context) (removed int64, err error) {
	if err := r.rules.Note(ctx, &r.records); err != nil {
		return 0, err
	}
	known, version, err := r.readRemovals(ctx)
	if err != nil {
		return 0, err
	}
	indices, err := r.backingIndices(ctx)
	if err != nil {
		return 0, err
	}
	next, err := r.observe(ctx, known, indices)
	if err != nil {
		return 0, err
	}
	if version == "" || !reflect.DeepEqual(next, known) {
		saved, err := eventstore.SaveRecord(ctx, &r.records, eventstore.RemovedRecord, removalsID, version, next)
		if err != nil || saved == "" { // another process may have noted the same
			return 0, err
		}
	}
	dialect, err := r.dialect(ctx, "applying the retention")
	if err != nil || dialect.product() != OpenSearch {
		return 0, err
	}
	return r.apply(ctx, indices, next)
}

// Removed reports which events of a source retention has removed, also since the last Retain.
func (r *retention) Removed(ctx context.Context, source string) (eventstore.Removed, error) {
	known, version, err := r.readRemovals(ctx)
	if err != nil || version == "" {
		return eventstore.Removed{}, err
	}
	indices, err := r.backingIndices(ctx)
	if err != nil {
		return eventstore.Removed{}, err
	}
	now, err := r.addRemoved(ctx, known, indices)
	if err != nil {
		return eventstore.Removed{}, err
	}
	kept, err := eventstore.ReadKeepRules(ctx, &r.records)
	return eventstore.Removed{Marks: now[source], Kept: kept}, err
}

func (r *retention) readRemovals(ctx context.Context) (known removals, version string, err error) {
	if version, err = eventstore.ReadRecord(ctx, &r.records, eventstore.RemovedRecord, removalsID, &known); err != nil {
		err = fmt.Errorf("reading what retention has removed: %w", err)
	}
	return known, version, err
}

// backingIndex is an index of a stream.
type backingIndex struct {
	stream schemas.Stream
	next   string // index of the stream, which gets the documents since; "" if this one does
}

// backingIndices returns the indices of all streams by name. A stream has none before its first document.
func (r *retention) backingIndices(ctx context.Context) (map[string]backingIndex, error) {
	found := map[string]backingIndex{}
	for _, name := range r.dataStreams() {
		var response struct {
			DataStreams []struct {
				Name    string   `json:"name"`
				Indices []string `json:"backing_indices"` // the last one gets the documents
			} `json:"data_streams"`
		}
		err := r.requestJSON(ctx, "looking for the indices of "+name, esapi.IndicesResolveIndexRequest{Name: []string{name}}, &response)
		if errorContains(err, "index_not_found_exception") {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, data := range response.DataStreams {
			stream := schemas.Stream(strings.TrimPrefix(data.Name, r.stream+"-"))
			for i, index := range data.Indices {
				found[index] = backingIndex{stream, ""}
				if i > 0 {
					found[data.Indices[i-1]] = backingIndex{stream, index}
				}
			}
		}
	}
	return found, nil
}

// observe returns the removals as they are now.
func (r *retention) observe(ctx context.Context, known removals, indices map[string]backingIndex) (next removals, err error) {
	next.Indices = map[string]indexMark{}
	if next.Removed, err = r.addRemoved(ctx, known, indices); err != nil {
		return next, err
	}
	if err := r.Refresh(ctx); err != nil {
		return next, err
	}
	for name, index := range indices {
		mark := known.Indices[name]
		if !mark.Complete {
			mark.Complete = mark.RolledOver
			mark.Stream, mark.RolledOver = index.stream, index.next != ""
			if mark.Highest, err = r.highestIn(ctx, name); err != nil {
				return next, err
			}
		}
		next.Indices[name] = mark
	}
	return next, nil
}

// addRemoved returns the removed events by source, with the indices that are no longer there.
func (r *retention) addRemoved(ctx context.Context, known removals, indices map[string]backingIndex) (map[string]eventstore.Marks, error) {
	all := map[string]eventstore.Marks{}
	for source, marks := range known.Removed {
		all[source] = maps.Clone(marks)
	}
	for name, mark := range known.Indices {
		if _, isThere := indices[name]; isThere {
			continue
		}
		for source, highest := range mark.Highest {
			if !mark.Complete {
				oldest, err := r.lowestIn(ctx, mark.Stream, source)
				if err != nil {
					return nil, err
				}
				highest = max(highest, oldest-1) // it may have got events since
			}
			if all[source] == nil {
				all[source] = eventstore.Marks{}
			}
			all[source].Add(mark.Stream, highest)
		}
	}
	return all, nil
}

// maxSources is the number of sources in one index of which the highest sequence is noted.
const maxSources = 1000

// highestIn returns the highest event.sequence in an index by source.
func (r *retention) highestIn(ctx context.Context, index string) (map[string]int64, error) {
	operation := "reading the highest sequences of " + index
	var response struct {
		Aggregations struct {
			Sources struct {
				Buckets []struct {
					Key     string `json:"key"`
					Highest struct {
						Value float64 `json:"value"` // exact up to eventstore.MaxSequence
					} `json:"highest"`
				} `json:"buckets"`
			} `json:"sources"`
		} `json:"aggregations"`
	}
	body := map[string]any{
		"size": 0, "track_total_hits": false,
		"query": querydsl.Bool("filter", []map[string]any{{"range": map[string]any{"event.sequence": map[string]any{"lte": int64(eventstore.MaxSequence)}}}}),
		"aggs": map[string]any{"sources": map[string]any{
			"terms": map[string]any{"field": "watership.source", "size": maxSources},
			"aggs":  map[string]any{"highest": map[string]any{"max": map[string]any{"field": "event.sequence"}}},
		}},
	}
	err := r.requestJSON(ctx, operation, esapi.SearchRequest{Index: []string{index}, Body: asJSON(body)}, &response)
	if err != nil {
		return nil, err
	}
	highest := map[string]int64{}
	for _, bucket := range response.Aggregations.Sources.Buckets {
		highest[bucket.Key] = int64(bucket.Highest.Value)
	}
	return highest, nil
}

// lowestIn returns the lowest event.sequence of a source in a stream; 0 if it has no event.
func (r *retention) lowestIn(ctx context.Context, stream schemas.Stream, source string) (int64, error) {
	operation := "reading the lowest sequence of " + source
	response, err := r.search(ctx, operation, []string{r.dataStream(stream)}, map[string]any{
		"size": 1, "_source": false, "track_total_hits": false,
		"query": querydsl.Bool("filter", []map[string]any{{"term": map[string]any{"watership.source": source}}}),
		"sort":  []any{sortBy("event.sequence", "asc", "long")},
	})
	if err != nil || len(response.Hits) == 0 {
		return 0, err
	}
	var lowest int64
	if err := json.Unmarshal(response.Hits[0].Sort[0], &lowest); err != nil {
		return 0, r.invalidResponse(operation, "gave one that is no number: "+err.Error())
	}
	return lowest, nil
}

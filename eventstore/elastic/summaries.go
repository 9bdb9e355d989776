package elastic

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic/internal/querydsl"
	"github.com/watershipmq/watership/schemas"
)

// Summaries reads the selected events in the order BySequence, without their bodies:
// those with one of the values in one of the fields, or all without such filters. It
// reads pages of 2,000 visible documents, without a snapshot.
func (r *reader) Summaries(ctx context.Context, sel eventstore.Selection, alternatives ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	sel.Order = eventstore.BySequence
	return func(yield func(eventstore.EventSummary, error) bool) {
		remaining := sel.Limit
		var last eventstore.EventSummary
		for {
			size := maxPage
			if remaining > 0 {
				size = min(size, remaining)
			}
			page, err := r.summariesPage(ctx, sel, alternatives, size)
			if err != nil {
				yield(eventstore.EventSummary{}, err)
				return
			}
			for _, summary := range page {
				if summary.EventID == last.EventID && summary.Sequence == last.Sequence {
					continue // a duplicate from before a rollover
				}
				last = summary
				if !yield(summary, nil) {
					return
				}
				if remaining--; remaining == 0 {
					return
				}
			}
			if len(page) < size {
				return
			}
			sel.After = eventstore.Cursor{Sequence: last.Sequence, EventID: last.EventID}
		}
	}
}

// summariesPage reads doc_values alone, since a source costs ten times as much. Where the message
// id and the fingerprint have none, it reads them in a second request.
func (r *reader) summariesPage(ctx context.Context, sel eventstore.Selection, alternatives []eventstore.FieldIn, size int) ([]eventstore.EventSummary, error) {
	hits, err := r.searchSummaries(ctx, map[string]any{
		"size": size, "_source": false, "stored_fields": "_none_", "track_total_hits": false,
		"query": querydsl.Bool("filter", append(anyTerms(alternatives), r.filter(sel))),
		"sort":  []any{sortBy("event.sequence", "asc", "long"), sortBy("event.id", "asc", "keyword")},
		"docvalue_fields": []any{
			"event.id", "event.sequence", "event.action", fingerprintField + valueSuffix, messageIDField + valueSuffix,
			"watership.message", "watership.queue", "watership.class", "error.type", "watership.error_group",
			"watership.replay.job", "watership.replay.of", "watership.quarantined_action", "watership.stream.id", "watership.stream.version",
			map[string]any{"field": "@timestamp", "format": "strict_date_optional_time_nanos"},
		},
	})
	summaries := make([]eventstore.EventSummary, len(hits))
	for i, h := range hits {
		summaries[i] = h.summary()
	}
	if err != nil {
		return summaries, err
	}
	return summaries, r.addFromSources(ctx, summaries)
}

func (r *reader) searchSummaries(ctx context.Context, body map[string]any) ([]summaryHit, error) {
	var response summariesResponse
	err := r.searchJSON(ctx, readingSummaries, body, &response)
	if err == nil && (response.TimedOut || response.Shards.Failed > 0) {
		err = r.partialResponse(readingSummaries, response.Shards)
	}
	return response.Hits.Hits, err
}

const readingSummaries = "reading summaries of events"

// Fields that have doc_values in a field below them, in the stream of failures alone.
const (
	fingerprintField = "watership.fingerprint"
	messageIDField   = "messaging.message.id"
	valueSuffix      = ".value"
)

// addFromSources adds the message ids and fingerprints of traffic, and of failures in an index of
// a version before 7.
func (r *reader) addFromSources(ctx context.Context, summaries []eventstore.EventSummary) error {
	var ids []string
	for _, summary := range summaries {
		if summary.Fingerprint == "" {
			ids = append(ids, summary.EventID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	hits, err := r.searchSummaries(ctx, map[string]any{
		"size": maxPlan, "_source": []string{fingerprintField, messageIDField}, "track_total_hits": false,
		"query": querydsl.Bool("filter", querydsl.Terms("event.id", ids)), "docvalue_fields": []any{"event.id", "event.sequence"},
	})
	if err != nil {
		return err
	}
	type place struct {
		id       string
		sequence int64
	}
	found := map[place]summaryHit{}
	for _, h := range hits {
		at := place{id: h.text("event.id")}
		_ = h.read("event.sequence", &at.sequence)
		found[at] = h
	}
	for i := range summaries {
		s := &summaries[i]
		if s.Fingerprint != "" {
			continue
		}
		h, isThere := found[place{s.EventID, s.Sequence}]
		if !isThere { // it was removed, or another copy of the shard does not have it yet
			return r.invalidResponse(readingSummaries, fmt.Sprintf("does not have event %s any more", s.EventID))
		}
		s.Fingerprint, s.MessageID = h.Source.Watership.Fingerprint, h.Source.Messaging.Message.ID
	}
	return nil
}

func anyTerms(alternatives []eventstore.FieldIn) []map[string]any {
	if len(alternatives) == 0 {
		return nil
	}
	clauses := make([]map[string]any, len(alternatives))
	for i, a := range alternatives {
		clauses[i] = querydsl.Terms(a.Field, append([]string{}, a.Values...))
	}
	return []map[string]any{querydsl.AnyOf(clauses)}
}

// searchJSON searches both streams. Missing ones are empty.
func (c *client) searchJSON(ctx context.Context, operation string, body map[string]any, into any) error {
	request := esapi.SearchRequest{
		Index: c.dataStreams(), Body: asJSON(body), AllowPartialSearchResults: new(bool), IgnoreUnavailable: new(true),
	}
	return explainLimit(operation, c.requestJSON(ctx, operation, request, into))
}

type summariesResponse struct {
	TimedOut bool   `json:"timed_out"`
	Shards   shards `json:"_shards"`
	Hits     struct {
		Hits []summaryHit `json:"hits"`
	} `json:"hits"`
}

// summaryHit has fields with doc_values, or some of its source.
type summaryHit struct {
	Fields map[string][]json.RawMessage `json:"fields"`
	Source struct {
		Watership struct {
			Fingerprint string `json:"fingerprint"`
		} `json:"watership"`
		Messaging struct {
			Message struct {
				ID string `json:"id"`
			} `json:"message"`
		} `json:"messaging"`
	} `json:"_source"`
}

func (h summaryHit) summary() eventstore.EventSummary {
	summary := eventstore.EventSummary{
		EventID: h.text("event.id"), Action: schemas.Action(cmp.Or(h.text("watership.quarantined_action"), h.text("event.action"))),
		Fingerprint: h.text(fingerprintField + valueSuffix), MessageID: h.text(messageIDField + valueSuffix),
		Message: h.text("watership.message"), Queue: h.text("watership.queue"), Class: h.text("watership.class"),
		ErrorType: h.text("error.type"), ErrorGroup: h.text("watership.error_group"),
		Replay: h.text("watership.replay.job"), ReplayOf: h.text("watership.replay.of"),
		Stream: schemas.MessageStream{ID: h.text("watership.stream.id")},
	}
	summary.Time, _ = time.Parse(time.RFC3339Nano, h.text("@timestamp"))
	_ = h.read("event.sequence", &summary.Sequence)
	summary.Stream.HasVersion = h.read("watership.stream.version", &summary.Stream.Version) == nil
	return summary
}

// text is "" if the event does not have the field.
func (h summaryHit) text(field string) string {
	var text string
	_ = h.read(field, &text)
	return text
}

func (h summaryHit) read(field string, into any) error {
	values := h.Fields[field]
	if len(values) == 0 {
		return fmt.Errorf("no field %s", field)
	}
	return json.Unmarshal(values[0], into)
}

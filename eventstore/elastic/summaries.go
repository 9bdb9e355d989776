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
			page, err := r.summariesPage(ctx, sel, alternatives)
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
			if len(page) < maxPage {
				return
			}
			sel.After = eventstore.Cursor{Sequence: last.Sequence, EventID: last.EventID}
		}
	}
}

func (r *reader) summariesPage(ctx context.Context, sel eventstore.Selection, alternatives []eventstore.FieldIn) ([]eventstore.EventSummary, error) {
	const operation = "reading summaries of events"
	var response summariesResponse
	err := r.searchJSON(ctx, operation, map[string]any{
		"size": maxPage, "_source": []string{"watership.fingerprint", "messaging.message.id"}, "track_total_hits": false,
		"query": querydsl.Bool("filter", append(anyTerms(alternatives), r.filter(sel))),
		"sort":  []any{sortBy("event.sequence", "asc", "long"), sortBy("event.id", "asc", "keyword")},
		"docvalue_fields": []any{
			"event.id", "event.sequence", "event.action",
			"watership.message", "watership.queue", "watership.class", "error.type", "watership.error_group",
			"watership.replay.job", "watership.replay.of", "watership.quarantined_action", "watership.stream.id", "watership.stream.version",
			map[string]any{"field": "@timestamp", "format": "strict_date_optional_time_nanos"},
		},
	}, &response)
	if err == nil && (response.TimedOut || response.Shards.Failed > 0) {
		err = r.partialResponse(operation, response.Shards)
	}
	summaries := make([]eventstore.EventSummary, len(response.Hits.Hits))
	for i, h := range response.Hits.Hits {
		summaries[i] = h.summary()
	}
	return summaries, err
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

// summaryHit has the fields with doc_values, and the others in its source.
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
		Fingerprint: h.Source.Watership.Fingerprint, MessageID: h.Source.Messaging.Message.ID,
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

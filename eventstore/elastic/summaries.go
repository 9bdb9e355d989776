package elastic

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic/internal/querydsl"
	"github.com/watershipmq/watership/eventstore/elastic/internal/sourcevalues"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/jsonscan"
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
	summaries, err := r.searchSummaries(ctx, map[string]any{
		"size": size, "_source": false, "stored_fields": "_none_", "track_total_hits": false,
		"query": querydsl.Bool("filter", append(anyTerms(alternatives), r.filter(sel))),
		"sort":  []any{sortBy("event.sequence", "asc", "long"), sortBy("event.id", "asc", "keyword")},
		"docvalue_fields": []any{
			"event.id", "event.sequence", "event.action", fingerprintField + valueSuffix, messageIDField + valueSuffix,
			"watership.message", "watership.queue", "watership.class", "error.type", "watership.error_group",
			"watership.replay.job", "watership.replay.of", "watership.quarantined_action", "watership.stream.id", "watership.stream.version",
			map[string]any{"field": "@timestamp", "format": "epoch_millis"},
		},
	})
	if err != nil {
		return summaries, err
	}
	return summaries, r.addFromSources(ctx, summaries)
}

func (r *reader) searchSummaries(ctx context.Context, body map[string]any) ([]eventstore.EventSummary, error) {
	var text bytes.Buffer
	if err := r.searchInto(ctx, readingSummaries, r.dataStreams(), body, &text); err != nil {
		return nil, err
	}
	summaries, answered, err := parseSummaries(text.Bytes())
	return summaries, answered.check(r.client, readingSummaries, err)
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
	sources, err := r.searchSummaries(ctx, map[string]any{
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
	found := map[place]eventstore.EventSummary{}
	for _, source := range sources {
		found[place{source.EventID, source.Sequence}] = source
	}
	for i := range summaries {
		s := &summaries[i]
		if s.Fingerprint != "" {
			continue
		}
		source, isThere := found[place{s.EventID, s.Sequence}]
		if !isThere { // it was removed, or another copy of the shard does not have it yet
			return r.invalidResponse(readingSummaries, fmt.Sprintf("does not have event %s any more", s.EventID))
		}
		s.Fingerprint, s.MessageID = source.Fingerprint, source.MessageID
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

// parseSummaries reads hits with doc_values, or with some of their sources.
func parseSummaries(text []byte) (summaries []eventstore.EventSummary, a answered, err error) {
	r := jsonscan.NewOfMany(text)
	r.Object(func(name []byte) {
		if string(name) != "hits" {
			a.read(r, name)
			return
		}
		r.Object(func(name []byte) {
			if string(name) == "hits" {
				r.Array(func() { summaries = append(summaries, readSummary(r)) })
			}
		})
	})
	return summaries, a, r.End()
}

func readSummary(r *jsonscan.Reader) (s eventstore.EventSummary) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "fields":
			readSummaryFields(r, &s)
		case "_source":
			source := bytes.Clone(r.Raw())
			s.Fingerprint = sourceText(source, fingerprintField)
			s.MessageID = sourceText(source, messageIDField)
		}
	})
	return s
}

// sourceText returns a text of a document; "" if it has none.
func sourceText(source []byte, field string) string {
	return jsonscan.New(sourcevalues.Read(jsonscan.New(source), field)).Text()
}

// readSummaryFields reads doc_values, each of which is a list.
func readSummaryFields(r *jsonscan.Reader, s *eventstore.EventSummary) {
	var action, quarantined string
	text := func(into *string) { r.Array(func() { *into = r.Text() }) }
	r.Object(func(name []byte) {
		switch string(name) {
		case "event.id":
			text(&s.EventID)
		case "event.sequence":
			r.Array(func() { s.Sequence = r.Int(64) })
		case "event.action":
			text(&action)
		case "watership.quarantined_action":
			text(&quarantined)
		case fingerprintField + valueSuffix:
			text(&s.Fingerprint)
		case messageIDField + valueSuffix:
			text(&s.MessageID)
		case "watership.message":
			text(&s.Message)
		case "watership.queue":
			text(&s.Queue)
		case "watership.class":
			text(&s.Class)
		case "error.type":
			text(&s.ErrorType)
		case "watership.error_group":
			text(&s.ErrorGroup)
		case "watership.replay.job":
			text(&s.Replay)
		case "watership.replay.of":
			text(&s.ReplayOf)
		case "watership.stream.id":
			text(&s.Stream.ID)
		case "watership.stream.version":
			r.Array(func() { s.Stream.Version, s.Stream.HasVersion = r.Int(64), true })
		case "@timestamp":
			var millis string // with a fraction, if a template of the operator stores nanoseconds
			text(&millis)
			whole, _, _ := strings.Cut(millis, ".")
			if n, err := strconv.ParseInt(whole, 10, 64); err == nil {
				s.Time = time.UnixMilli(n).UTC()
			}
		}
	})
	s.Action = schemas.Action(cmp.Or(quarantined, action))
}

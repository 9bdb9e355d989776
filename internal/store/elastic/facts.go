package elastic

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/schemas"
)

// Facts reads the facts of a selection in the order BySequence: of the events
// that have one of the values in one of the fields, or of all where none are
// given. It reads what is visible when each page of 2,000 is read, and keeps
// only that page.
func (s *Store) Facts(ctx context.Context, sel schemas.Selection, either ...schemas.Among) iter.Seq2[schemas.Fact, error] {
	sel.Order = schemas.BySequence
	return func(yield func(schemas.Fact, error) bool) {
		left := sel.Limit
		var last schemas.Fact
		for {
			page, err := s.factsPage(ctx, sel, either)
			if err != nil {
				yield(schemas.Fact{}, err)
				return
			}
			for _, fact := range page {
				if fact.EventID == last.EventID && fact.Sequence == last.Sequence {
					continue // written twice, across a rollover
				}
				last = fact
				if !yield(fact, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if len(page) < longestPage {
				return
			}
			sel.After = schemas.Cursor{Sequence: last.Sequence, EventID: last.EventID}
		}
	}
}

func (s *Store) factsPage(ctx context.Context, sel schemas.Selection, either []schemas.Among) ([]schemas.Fact, error) {
	const doing = "reading what events are about"
	var answer factsAnswer
	err := s.searchInto(ctx, doing, map[string]any{
		"size": longestPage, "_source": false, "track_total_hits": false,
		"query": boolean("filter", append(among(either), s.filter(sel))),
		"sort":  []any{by("event.sequence", "asc", "long"), by("event.id", "asc", "keyword")},
		"docvalue_fields": []any{
			"event.id", "event.sequence", "event.action", "watership.fingerprint", "messaging.message.id",
			"watership.message", "watership.queue", "watership.class", "error.type", "watership.error_group",
			"watership.replay.job", "watership.replay.of", "watership.quarantined_action",
			map[string]any{"field": "@timestamp", "format": "strict_date_optional_time_nanos"},
		},
	}, &answer)
	if err == nil && (answer.TimedOut || answer.Shards.Failed > 0) {
		err = s.partial(doing, answer.Shards)
	}
	facts := make([]schemas.Fact, len(answer.Hits.Hits))
	for i, h := range answer.Hits.Hits {
		facts[i] = h.fact()
	}
	return facts, err
}

func among(either []schemas.Among) []map[string]any {
	if len(either) == 0 {
		return nil
	}
	clauses := make([]map[string]any, len(either))
	for i, a := range either {
		clauses[i] = map[string]any{"terms": map[string]any{a.Field: append([]string{}, a.Values...)}}
	}
	return []map[string]any{anyOf(clauses)}
}

// searchInto searches both streams; those that are not there yet are empty.
func (s *Store) searchInto(ctx context.Context, doing string, body map[string]any, into any) error {
	request := esapi.SearchRequest{
		Index: s.both(), Body: asJSON(body), AllowPartialSearchResults: new(bool), IgnoreUnavailable: yes(),
	}
	return beyondLimit(doing, s.ask(ctx, doing, request, into))
}

type factsAnswer struct {
	TimedOut bool   `json:"timed_out"`
	Shards   shards `json:"_shards"`
	Hits     struct {
		Hits []factHit `json:"hits"`
	} `json:"hits"`
}

type factHit struct {
	Fields map[string][]json.RawMessage `json:"fields"`
}

func (h factHit) fact() schemas.Fact {
	fact := schemas.Fact{
		EventID: h.text("event.id"), Action: schemas.Action(cmp.Or(h.text("watership.quarantined_action"), h.text("event.action"))),
		Fingerprint: h.text("watership.fingerprint"), MessageID: h.text("messaging.message.id"),
		Message: h.text("watership.message"), Queue: h.text("watership.queue"), Class: h.text("watership.class"),
		ErrorType: h.text("error.type"), ErrorGroup: h.text("watership.error_group"),
		Replay: h.text("watership.replay.job"), ReplayOf: h.text("watership.replay.of"),
	}
	fact.Time, _ = time.Parse(time.RFC3339Nano, h.text("@timestamp"))
	_ = h.read("event.sequence", &fact.Sequence)
	return fact
}

// text is "" where the event has no such field.
func (h factHit) text(field string) string {
	var text string
	_ = h.read(field, &text)
	return text
}

func (h factHit) read(field string, into any) error {
	values := h.Fields[field]
	if len(values) == 0 {
		return fmt.Errorf("no field %s", field)
	}
	return json.Unmarshal(values[0], into)
}

package sqlite

import (
	"fmt"
	"strings"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// values are members of a document, each with a query for their value.
var values = []struct{ member, query string }{
	{`"event.duration":12`, "event.duration: 12"},
	{`"event.duration":12.7`, "event.duration: 12"},
	{`"event.duration":-12.7`, "event.duration <= -12"},
	{`"event.duration":"12.7"`, "event.duration: 12"},
	{`"event.duration":1e3`, "event.duration: 1000"},
	{`"event.duration":9223372036854775807`, "event.duration: 9223372036854775807"},
	{`"event.duration":1e30`, "event.duration: *"},
	{`"event.duration":"abc"`, "event.duration: *"},
	{`"event.duration":true`, "event.duration: *"},
	{`"event.duration":{"a":1}`, "event.duration: *"},
	{`"event.duration":null`, "event.duration: *"},
	{`"numeric_labels":{"total":"9.5"}`, "numeric_labels.total: 9.5"},
	{`"numeric_labels":{"total":1e30}`, "numeric_labels.total > 1"},
	{`"numeric_labels":{"total":true}`, "numeric_labels.total: *"},
	{`"numeric_labels":{"total":"NaN"}`, "numeric_labels.total: *"},
	{`"numeric_labels":{"total":1e400}`, "numeric_labels.total: *"},
	{`"watership.first_failed":"2026-01-01"`, "watership.first_failed: 2026-01-01"},
	{`"watership.first_failed":"2026-01-01T00:00:00+02:00"`, "watership.first_failed: 2025-12-31"},
	{`"watership.first_failed":1767225600000`, "watership.first_failed: 2026-01-01"},
	{`"watership.first_failed":"now"`, "watership.first_failed: *"},
	{`"watership.first_failed":"2026-01-01||+1d"`, "watership.first_failed: *"},
	{`"watership.first_failed":"yesterday"`, "watership.first_failed: *"},
	{`"watership.first_failed":true`, "watership.first_failed: *"},
	{`"event.action":"published"`, "event.action: published"},
	{`"event.action":7.50`, `event.action: "7.50"`},
	{`"event.action":true`, "event.action: true"},
	{`"event.action":{"a":1}`, "event.action: *"},
	{`"event.action":"` + strings.Repeat("x", 8191) + `"`, "event.action: xx*"},
	{`"event.action":"` + strings.Repeat("x", 8192) + `"`, "event.action: xx*"},
	{`"event.action":"` + strings.Repeat("𝄞", 4096) + `"`, "event.action: 𝄞*"},
	{`"error.message":"no stock"`, "error.message: stock"},
	{`"error.message":7`, "error.message: 7"},
	{`"error.message":true`, "error.message: true"},
	{`"error.message":{"a":"b"}`, "error.message: *"},
	{`"headers":{"a":{"b":[1,{"c":true}]}}`, "headers.a.b.c: true"},
	{`"headers":{"a":null}`, "headers: *"},
	{`"headers":"text"`, "headers: *"},
	{`"headers":7`, "headers: *"},
	{`"headers":null`, "headers: *"},
	{`"labels":{"tenant":"acme"}`, "labels.tenant: acme"},
	{`"labels":{"tenant":null}`, "labels.tenant: *"},
	{`"unmapped":{"a":[1,{"b":2}]}`, "unmapped.a: 1"},
	{`"amqp":{"a":{"b":[1]}}`, "amqp.a.b: 1"},
}

// TestValuesAreElasticsearchs: both stores accept the same values of a field, and find
// the same ones.
func TestValuesAreElasticsearchs(t *testing.T) {
	t.Parallel()
	labels := []string{"labels.tenant", "numeric_labels.total"}
	other, s := elasticsearch(t, labels...), installed(t, Config{Labels: labels})
	docs := make([]schemas.Document, len(values))
	for i, v := range values {
		docs[i] = documentWith(i, v.member)
	}
	want, err := other.Create(t.Context(), docs)
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Create(t.Context(), docs)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		if got[i].Status != want[i].Status {
			t.Errorf("%.60s: got %+v, Elasticsearch has %+v", v.member, got[i], want[i])
			continue
		}
		sel := eventstore.Selection{Query: kql.And{node(t, v.query), node(t, fmt.Sprint("event.sequence: ", i))}}
		found, err := s.Count(t.Context(), sel)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := other.Count(t.Context(), sel); err != nil || n != found {
			t.Errorf("%.60s: %s finds %d, Elasticsearch finds %d (%v)", v.member, v.query, found, n, err)
		}
	}
}

// documentWith is a document with one more member.
func documentWith(n int, member string) schemas.Document {
	source := fmt.Sprintf(`{"@timestamp":"2026-05-04T00:00:00Z","event.sequence":%d,%s}`, n, member)
	return schemas.Document{ID: fmt.Sprint("document-", n), Stream: schemas.Traffic, Source: []byte(source)}
}

func node(t testing.TB, text string) kql.Node {
	t.Helper()
	parsed, err := kql.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// TestRefusalsNameTheReason: a refused document is not written, and its reason is one
// line with the field and the value.
func TestRefusalsNameTheReason(t *testing.T) {
	t.Parallel()
	s := installed(t, Config{})
	for source, want := range map[string]string{
		`[1]`: "is no JSON object",
		`{"@timestamp":"2026-05-04T00:00:00Z","event":{"sequence":1}`:                              "is no JSON",
		`{"@timestamp":"2026-05-04T00:00:00Z","event":{"sequence":1}} {}`:                          "text follows its end",
		`{"@timestamp":"2026-05-04T00:00:00Z","event":{"sequence":1},"amqp":{"headers":{"n":01}}}`: `"01" is no value`,
		`{"@timestamp":"2026-05-04T00:00:00Z","event":{"sequence":1},"unknown":[truex]}`:           `"truex" is no value`,
		`{"event":{"sequence":1}}`:                                                                  "has no @timestamp",
		`{"@timestamp":"2026-05-04T00:00:00Z","event":{}}`:                                          "has no event.sequence",
		`{"@timestamp":"yesterday","event":{"sequence":1}}`:                                         `@timestamp is "yesterday", expected a date`,
		`{"@timestamp":"2026-05-04T00:00:00Z","event":{"sequence":1,"duration":{"a":1}}}`:           "event.duration is an object, expected a long",
		`{"@timestamp":"2026-05-04T00:00:00Z","event":{"sequence":1,"duration":1e30}}`:              "event.duration is the number 1e30, expected a long",
		`{"@timestamp":"2026-05-04T00:00:00Z","event":{"sequence":1,"duration":true}}`:              "event.duration is true, expected a long",
		`{"@timestamp":"2026-05-04T00:00:00Z","event":{"sequence":1,"action":["a","b"]}}`:           "event.action has a list",
		`{"@timestamp":"2026-05-04T00:00:00Z","event":{"sequence":1},"labels":{"tenant":["a"]}}`:    "labels.tenant is a list, expected a keyword",
		`{"@timestamp":"2026-05-04T00:00:00Z","event":{"sequence":1},"headers":"text"}`:             `headers is "text", expected an object`,
		`{"@timestamp":"2026-05-04T00:00:00Z","event":[{"sequence":1},{"sequence":2}]}`:             "event.sequence has a list",
		`{"@timestamp":"2026-05-04T00:00:00Z","event":{"sequence":1},"error":{"message":{"a":{}}}}`: "error.message is an object, expected a text",
	} {
		doc := schemas.Document{ID: "refused", Stream: schemas.Traffic, Source: []byte(source)}
		results, err := s.Create(t.Context(), []schemas.Document{doc})
		if err != nil {
			t.Fatal(err)
		}
		if got := results[0]; got.Status != eventstore.Refused || !strings.Contains(got.Reason, want) || strings.Contains(got.Reason, "\n") {
			t.Errorf("%s: got %+v, want a refusal with %q", source, got, want)
		}
	}
	wantConsistent(t, s)
	if n, err := s.Count(t.Context(), eventstore.Selection{}); n != 0 || err != nil {
		t.Errorf("%d documents were written, %v", n, err)
	}
}

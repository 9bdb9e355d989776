package elastic

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/watershipmq/watership/eventstore/elastic/internal/querydsl"
	"github.com/watershipmq/watership/eventstore/kql"
)

var dslFields = kql.Fields{
	Known: []kql.Field{
		{Name: "@timestamp", Type: kql.Date},
		{Name: "event.action", Type: kql.Keyword},
		{Name: "event.duration", Type: kql.Long},
		{Name: "error.message", Type: kql.Text},
		{Name: "watership.ours", Type: kql.Boolean},
		{Name: "headers", Type: kql.Flattened},
		{Name: "labels.*", Type: kql.Keyword},
		{Name: "numeric_labels.*", Type: kql.Double},
	},
	Labels: []string{"labels.tenant", "numeric_labels.total"},
}

// TestCompile: the JSON is Kibana 8.19's for the same text and a data view with these
// fields, except where a comment says otherwise.
func TestCompile(t *testing.T) {
	for _, tt := range []struct {
		rule string
		text string
		want string
	}{
		{"everything", ``, `{"match_all": {}}`},

		{
			"words without a field", `foo bar`,
			`{"multi_match": {"type": "best_fields", "query": "foo bar", "lenient": true}}`,
		},
		{
			"a phrase without a field", `"foo bar"`,
			`{"multi_match": {"type": "phrase", "query": "foo bar", "lenient": true}}`,
		},
		{
			"a wildcard without a field", `foo-*`,
			`{"query_string": {"query": "foo\\-*"}}`,
		},

		{
			"words in text", `error.message: foo bar`,
			`{"bool": {"should": [{"match": {"error.message": "foo bar"}}], "minimum_should_match": 1}}`,
		},
		{
			"a phrase in text", `error.message: "foo bar"`,
			`{"bool": {"should": [{"match_phrase": {"error.message": "foo bar"}}], "minimum_should_match": 1}}`,
		},
		{
			"a wildcard in text", `error.message: a\:*\*`,
			`{"bool": {"should": [{"query_string": {"fields": ["error.message"], "query": "a\\:*\\*"}}], "minimum_should_match": 1}}`,
		},

		{
			"a keyword", `event.action: foo bar`,
			`{"bool": {"should": [{"term": {"event.action": {"value": "foo bar"}}}], "minimum_should_match": 1}}`,
		},
		{
			"a quoted keyword", `event.action: "foo"`,
			`{"bool": {"should": [{"term": {"event.action": {"value": "foo"}}}], "minimum_should_match": 1}}`,
		},
		{
			"a wildcard in a keyword", `event.action: *\\a-b*`,
			`{"bool": {"should": [{"wildcard": {"event.action": {"value": "*\\\\a\\-b*"}}}], "minimum_should_match": 1}}`,
		},
		{
			"a label", `labels.new: x`,
			`{"bool": {"should": [{"term": {"labels.new": {"value": "x"}}}], "minimum_should_match": 1}}`,
		},

		{
			"a number", `event.duration: 5`,
			`{"bool": {"should": [{"match": {"event.duration": "5"}}], "minimum_should_match": 1}}`,
		},
		{
			"a quoted number", `event.duration: "5"`,
			`{"bool": {"should": [{"match_phrase": {"event.duration": "5"}}], "minimum_should_match": 1}}`,
		},
		{
			"a boolean", `watership.ours: true`,
			`{"bool": {"should": [{"match": {"watership.ours": true}}], "minimum_should_match": 1}}`,
		},
		{
			"a quoted boolean", `watership.ours: "true"`,
			`{"bool": {"should": [{"match_phrase": {"watership.ours": "true"}}], "minimum_should_match": 1}}`,
		},
		{
			"a date", `@timestamp: "2026-01-01"`,
			`{"bool": {"should": [{"range": {"@timestamp": {"gte": "2026-01-01", "lte": "2026-01-01"}}}], "minimum_should_match": 1}}`,
		},

		{
			"a flattened field", `headers: foo bar`,
			`{"bool": {"should": [{"match": {"headers": "foo bar"}}], "minimum_should_match": 1}}`,
		},
		{
			"a key of it", `headers.a.b: "foo bar"`,
			`{"bool": {"should": [{"match_phrase": {"headers.a.b": "foo bar"}}], "minimum_should_match": 1}}`,
		},
		{
			"all its keys, where Kibana asks for a field of that name", `headers.*: foo`,
			`{"bool": {"should": [{"match": {"headers": "foo"}}], "minimum_should_match": 1}}`,
		},
		{
			"a wildcard in it, where Kibana sends query_string", `headers: f-o*o`,
			`{"bool": {"should": [{"wildcard": {"headers": {"value": "f\\-o*o"}}}], "minimum_should_match": 1}}`,
		},
		{
			"a wildcard in a key, where Kibana sends query_string", `headers.a: f-o b*`,
			`{"bool": {"should": [{"prefix": {"headers.a": {"value": "f-o b"}}}], "minimum_should_match": 1}}`,
		},
		{
			"null, where Kibana sends null and gets 400", `headers.a: null`,
			`{"bool": {"should": [{"match": {"headers.a": "null"}}], "minimum_should_match": 1}}`,
		},

		{
			"exists", `event.action: *`,
			`{"bool": {"should": [{"exists": {"field": "event.action"}}], "minimum_should_match": 1}}`,
		},
		{
			"exists, of a pattern", `event.*: *`,
			`{"bool": {"should": [{"exists": {"field": "event.action"}}, {"exists": {"field": "event.duration"}}], "minimum_should_match": 1}}`,
		},
		{
			"less", `event.duration < 5`,
			`{"bool": {"should": [{"range": {"event.duration": {"lt": "5"}}}], "minimum_should_match": 1}}`,
		},
		{
			"at most", `event.duration <= 5`,
			`{"bool": {"should": [{"range": {"event.duration": {"lte": "5"}}}], "minimum_should_match": 1}}`,
		},
		{
			"more", `numeric_labels.total > 1.5`,
			`{"bool": {"should": [{"range": {"numeric_labels.total": {"gt": "1.5"}}}], "minimum_should_match": 1}}`,
		},
		{
			"at least", `@timestamp >= now-1h/d`,
			`{"bool": {"should": [{"range": {"@timestamp": {"gte": "now-1h/d"}}}], "minimum_should_match": 1}}`,
		},

		{
			"a pattern of fields", `*e*: 5`,
			`{"bool": {"should": [
				{"range": {"@timestamp": {"gte": "5", "lte": "5"}}},
				{"term": {"event.action": {"value": "5"}}},
				{"match": {"event.duration": "5"}},
				{"match": {"error.message": "5"}},
				{"match": {"headers": "5"}},
				{"term": {"labels.tenant": {"value": "5"}}},
				{"match": {"numeric_labels.total": "5"}}
			], "minimum_should_match": 1}}`,
		},
		{
			"... of which some cannot answer, where Kibana gets 400", `event.*: abc*`,
			`{"bool": {"should": [{"wildcard": {"event.action": {"value": "abc*"}}}], "minimum_should_match": 1}}`,
		},
		{"... of which none can, where Kibana gets 400", `event.d*: abc`, `{"match_none": {}}`},
		{"... that finds no field, where Kibana asks for a field of that name", `foo*: x`, `{"match_none": {}}`},
		{
			"a field that nobody knows", `other: foo`,
			`{"bool": {"should": [{"match": {"other": "foo"}}], "minimum_should_match": 1}}`,
		},

		{
			"and", `event.action: * and not foo and "b"`,
			`{"bool": {"filter": [
				{"bool": {"should": [{"exists": {"field": "event.action"}}], "minimum_should_match": 1}},
				{"bool": {"must_not": {"multi_match": {"type": "best_fields", "query": "foo", "lenient": true}}}},
				{"multi_match": {"type": "phrase", "query": "b", "lenient": true}}
			]}}`,
		},
		{
			"or", `labels.tenant: (a or b)`,
			`{"bool": {"should": [
				{"bool": {"should": [{"term": {"labels.tenant": {"value": "a"}}}], "minimum_should_match": 1}},
				{"bool": {"should": [{"term": {"labels.tenant": {"value": "b"}}}], "minimum_should_match": 1}}
			], "minimum_should_match": 1}}`,
		},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			node, err := kql.Parse(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			requireJSON(t, querydsl.Compile(node, dslFields), tt.want)
		})
	}
}

func TestCompileNilIsEverything(t *testing.T) {
	requireJSON(t, querydsl.Compile(nil, kql.Fields{}), `{"match_all": {}}`)
}

// TestCompileEmptyOrIsNothing: an empty `should` would match everything.
func TestCompileEmptyOrIsNothing(t *testing.T) {
	requireJSON(t, querydsl.Compile(kql.Or{}, kql.Fields{}), `{"match_none": {}}`)
}

func requireJSON(t *testing.T, got any, want string) {
	t.Helper()
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var gotTree, wantTree any
	if err := json.Unmarshal(text, &gotTree); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &wantTree); err != nil {
		t.Fatalf("the test's JSON: %v", err)
	}
	if !reflect.DeepEqual(gotTree, wantTree) {
		t.Errorf(" got %s\nwant %s", text, want)
	}
}

package elastic

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// Queries in Elasticsearch's language that people may send, with the names of what they find.
func allowedQueries() map[string]string {
	return map[string]string{
		`{"match_all": {"boost": 1}}`: "early late other",
		`{"match_none": {}}`:          "",
		`{"query": {"term": {"event.action": "poisoned"}}, "size": 0, "aggs": {"x": {"terms": {"field": "y", "script": "z"}}}}`:                                               "late",
		`{"term": {"event.action": {"value": "POISONED", "case_insensitive": true, "boost": 2, "_name": "n"}}}`:                                                               "late",
		`{"terms": {"event.action": ["poisoned", "handled"], "boost": 1}}`:                                                                                                    "late other",
		`{"ids": {"values": ["late", "early"]}}`:                                                                                                                              "early late",
		`{"exists": {"field": "event.duration"}}`:                                                                                                                             "early late",
		`{"prefix": {"event.action": "p"}}`:                                                                                                                                   "late",
		`{"prefix": {"event.action": {"value": "P", "case_insensitive": true}}}`:                                                                                              "late",
		`{"wildcard": {"event.action": "*ed"}}`:                                                                                                                               "early late other",
		`{"wildcard": {"event.action": {"wildcard": "h?ndled"}}}`:                                                                                                             "other",
		`{"range": {"@timestamp": {"gte": "01/02/2026", "lt": "2027", "format": "dd/MM/yyyy||yyyy", "time_zone": "+01:00", "relation": "within"}}}`:                           "late other",
		`{"range": {"event.duration": {"gt": 9, "lte": 10}}}`:                                                                                                                 "early",
		`{"match": {"error.message": "cannot nothing"}}`:                                                                                                                      "early late",
		`{"match": {"error.message": {"query": "cannot connect", "operator": "and", "zero_terms_query": "none", "lenient": true}}}`:                                           "late",
		`{"match_bool_prefix": {"error.message": {"query": "could noth", "minimum_should_match": 2}}}`:                                                                        "early",
		`{"match_phrase": {"error.message": {"query": "cannot order", "slop": 1}}}`:                                                                                           "late",
		`{"match_phrase_prefix": {"error.message": "timed o"}}`:                                                                                                               "late",
		`{"multi_match": {"query": "acme", "fields": ["headers", "labels.*"], "type": "best_fields", "lenient": true, "tie_breaker": 0.1}}`:                                   "late",
		`{"query_string": {"query": "order\\-1* AND \"timed out\"~1", "fields": ["error.message"], "analyze_wildcard": true, "default_operator": "AND", "time_zone": "UTC"}}`: "late",
		`{"query_string": {"query": "event.action:(h* OR poisoned)", "default_field": "error.message", "lenient": true, "allow_leading_wildcard": false}}`:                    "late other",
		`{"simple_query_string": {"query": "noth* | timed/out", "fields": ["error.message"], "default_operator": "or"}}`:                                                      "early late",
		`{"bool": {"must": [{"exists": {"field": "event.duration"}}], "filter": {"match_all": {}}, "should": [], "must_not": [{"term": {"event.duration": 9}}], "minimum_should_match": 0, "adjust_pure_negative": true}}`: "early",
		`{"constant_score": {"filter": {"term": {"event.action": "handled"}}, "boost": 2}}`:                                           "other",
		`{"dis_max": {"queries": [{"term": {"event.action": "handled"}}, {"term": {"event.action": "poisoned"}}], "tie_breaker": 0}}`: "late other",
		`{"boosting": {"positive": {"match_all": {}}, "negative": {"term": {"event.action": "handled"}}, "negative_boost": 0.5}}`:     "early late other",
		`{"term": {"event.action": "a"}, "term": {"event.action": "handled"}, "term": {"event.action": "poisoned"}}`:                  "late",
	}
}

func TestAllowedQueriesFind(t *testing.T) {
	index := newDSLIndex(t)
	for text, want := range allowedQueries() {
		raw, err := ParseQuery([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := index.search(t, json.RawMessage(raw.JSON)); got != want {
			t.Errorf("%s found %q, want %q", text, got, want)
		}
	}
}

// A query of a person reads the documents that it searches, at a bounded cost.
func TestRefusedQueries(t *testing.T) {
	nested := func(n int) string {
		return strings.Repeat(`{"bool": {"must": `, n) + `{"match_all": {}}` + strings.Repeat(`}}`, n)
	}
	many := func(n int, query string) string {
		return `{"bool": {"should": [` + strings.TrimSuffix(strings.Repeat(query+",", n), ",") + `]}}`
	}
	operators := func(text string) string {
		quoted, _ := json.Marshal(text)
		return fmt.Sprintf(`{"query_string": {"query": %s}}`, quoted)
	}
	for text, want := range map[string]string{
		`{"regexp": {"messaging.message.id": {"value": ".*a.{22}", "max_determinized_states": 2000000000}}}`: `the query "regexp" is not permitted: expected one of bool, boosting, `,
		`{"script": {"script": "true"}}`:                                             `"script"`,
		`{"function_score": {"script_score": {"script": "1"}}}`:                      `"function_score"`,
		`{"script_score": {"query": {"match_all": {}}, "script": "1"}}`:              `"script_score"`,
		`{"terms_set": {"a": {"terms": ["b"], "minimum_should_match_script": "1"}}}`: `"terms_set"`,
		`{"percolate": {"field": "query", "index": "other", "id": "1"}}`:             `"percolate"`,
		`{"more_like_this": {"like": {"_index": "other", "_id": "1"}}}`:              `"more_like_this"`,
		`{"geo_shape": {"a": {"indexed_shape": {"index": "other", "id": "1"}}}}`:     `"geo_shape"`,
		`{"wrapper": {"query": "e30="}}`:                                             `"wrapper"`,
		`{"intervals": {"a": {"regexp": {"pattern": ".*a.{22}"}}}}`:                  `"intervals"`,
		`{"span_multi": {"match": {"regexp": {"a": "b"}}}}`:                          `"span_multi"`,
		`{"fuzzy": {"a": "b"}}`:                                                      `"fuzzy"`,
		`{"knn": {"field": "a", "query_vector": [1]}}`:                               `"knn"`,
		`{"nested": {"path": "a", "query": {"match_all": {}}}}`:                      `"nested"`,
		`{"REGEXP": {"a": "b"}}`:                                                     `"REGEXP"`,

		`{"terms": {"messaging.message.id": {"index": "other", "id": "1", "path": "v"}}}`:                     "terms: messaging.message.id: expected a list of values",
		`{"bool": {"must_not": [{"match_all": {}}, {"bool": {"filter": {"terms": {"a": {"index": "b"}}}}}]}}`: "bool: must_not: bool: filter: terms: a: expected a list",
		`{"query_string": {"query": "a", "max_determinized_states": 2000000000}}`:                             `query_string: the parameter "max_determinized_states" is not permitted: expected one of _name, `,
		`{"wildcard": {"a": {"value": "b", "rewrite": "scoring_boolean"}}}`:                                   `"rewrite"`,
		`{"match": {"a": {"query": "b", "fuzziness": 2}}}`:                                                    `"fuzziness"`,
		`{"match_phrase_prefix": {"a": {"query": "b", "max_expansions": 100000}}}`:                            `"max_expansions"`,
		`{"bool": {"must": [{"match": {"a": {"query": {"script": 1}}}}]}}`:                                    "expected a text",
		`{"ids": {"values": [["a"]]}}`:                                                                        "expected a text",
		`{"bool": {"must": "match_all"}}`:                                                                     "expected an object with one query",
		`{"bool": []}`:                                                                                        "bool: expected an object",
		`{"bool": {"must": {"match_all": {}, "regexp": {}}}}`:                                                 "expected an object with one query",
		`{"query": {"term": {"a": "b"}, "match_all": {}}}`:                                                    "expected an object with one query",
		`{"wildcard": {"a": "` + strings.Repeat("a*", 33) + `"}}`:                                             "found 33 wildcards, expected at most 32",
		`{"wildcard": {"a": {"wildcard": "` + strings.Repeat("?", 33) + `"}}}`:                                "found 33 wildcards",
		operators("a /.*b.{22}/"):                                                                             `regular expressions are not permitted: write \/`,
		operators(`\\/a/`):                                                                                    "regular expressions",
		operators(`[a" TO b] /c/ "d`):                                                                         "regular expressions",
		operators("roam~2"):                                                                                   "a fuzzy search is not permitted",
		operators(`roam\"~2`):                                                                                 "a fuzzy search",
		operators(strings.Repeat("a* ", 33)):                                                                  "found 33 wildcards",
		operators(strings.Repeat("(", 21)):                                                                    "found 21 parentheses, expected at most 20",
		operators(strings.Repeat("a", 10_001)):                                                                "10001 bytes",
		`{"simple_query_string": {"query": "roam~"}}`:                                                         "fuzzy",

		nested(20):                             "queries are nested more than 20 deep",
		many(1_000, `{"match_all": {}}`):       "more than 1000 queries",
		many(51, `{"prefix": {"a": "b"}}`):     "more than 50 queries for prefixes",
		many(51, `{"wildcard": {"a": "b*c"}}`): "more than 50 queries for prefixes",
		many(51, operators("a")):               "more than 50 queries for prefixes",
		`{"term": {"a": "b"}} {"regexp": {}}`:  "nothing after it",
		`[]`:                                   "expected a JSON object",
		`{}`:                                   "expected one query",
	} {
		raw, err := ParseQuery([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s: %v, %.200s; want an error with %s", text, err, raw.JSON, want)
		}
	}
	for _, text := range []string{nested(19), many(999, `{"match_all": {}}`), many(50, `{"prefix": {"a": "b"}}`), operators(strings.Repeat(`a* `, 32))} {
		if _, err := ParseQuery([]byte(text)); err != nil {
			t.Errorf("%.200s: %v", text, err)
		}
	}
}

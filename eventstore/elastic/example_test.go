package elastic_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/kql"
)

// The failures in a store are counted. The example's node has three.
func ExampleOpen() {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Elastic-Product", "Elasticsearch")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"_shards": {"total": 2, "successful": 2}, "hits": {"total": {"value": 3, "relation": "eq"}, "hits": []}}`)
	}))
	defer node.Close()

	store, err := elastic.Open(elastic.Config{URLs: []string{node.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	query, err := kql.Parse("event.action: poisoned")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(store.Count(context.Background(), eventstore.Selection{Query: query}))
	// Output: 3 <nil>
}

func ExampleParseQuery() {
	query, err := elastic.ParseQuery([]byte(`{"query": {"prefix": {"error.type": "Time"}}, "size": 10}`))
	fmt.Println(query, err)
	_, err = elastic.ParseQuery([]byte(`{"bool": {"must": {"regexp": {"error.type": "Time.*"}}}}`))
	fmt.Println(err)
	// Output:
	// {"prefix":{"error.type":"Time"}} <nil>
	// bool: must: the query "regexp" is not permitted: expected one of bool, boosting, constant_score, dis_max, exists, ids, match, match_all, match_bool_prefix, match_none, match_phrase, match_phrase_prefix, multi_match, prefix, query_string, range, simple_query_string, term, terms, wildcard
}

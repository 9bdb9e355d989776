package elastic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/watershipmq/watership/eventstore/elastic/internal/querydsl"
	"github.com/watershipmq/watership/eventstore/kql"
)

// ParseQuery reads a query in Elasticsearch's query DSL that a person has written, or the body
// of a search that has one, as Kibana's Inspect shows it. It ignores the rest of such a body.
//
// It accepts the queries that search the selected documents at a bounded cost: no query of a
// person can end a node of Elasticsearch or read other indices. The result has the JSON that
// was checked, rather than the text: a reader of JSON may take either of two members
// with the same name.
func ParseQuery(text []byte) (kql.Raw, error) {
	const expected = `expected a JSON object such as {"term": {"event.action": "poisoned"}}`
	var body map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&body); err != nil {
		return kql.Raw{}, fmt.Errorf("%s: %w", expected, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return kql.Raw{}, errors.New(expected + " and nothing after it")
	}
	var query any = body
	inner, isBody := body["query"]
	switch {
	case isBody:
		query = inner
	case len(body) != 1:
		return kql.Raw{}, errors.New(`expected one query, or the body of a search with "query" in it`)
	}
	if err := querydsl.Check(query); err != nil {
		return kql.Raw{}, err
	}
	checked, err := querydsl.Text(query)
	return kql.Raw{JSON: checked}, err
}

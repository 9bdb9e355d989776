// Package querydsl compiles queries to the query DSL of Elasticsearch.
package querydsl

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/watershipmq/watership/eventstore/kql"
)

// Compile compiles a tree that kql.Resolve has checked to Elasticsearch's query DSL.
// A nil tree matches everything.
//
// The result is the query of Kibana for the same text (toElasticsearchQuery in
// kbn-es-query), so that both find the same documents. It differs where Kibana's would
// be an error or find the wrong documents: see compilePattern, anyOf,
// kql.Fields.Expand and kql.Fields.Together.
func Compile(node kql.Node, fields kql.Fields) map[string]any {
	switch n := node.(type) {
	case nil, kql.All:
		return map[string]any{"match_all": map[string]any{}}
	case kql.And:
		return Bool("filter", compileAll(n, fields))
	case kql.Or:
		return compileOr(n, fields)
	case kql.Not:
		return Bool("must_not", Compile(n.Node, fields))
	case kql.Raw:
		return Bool("filter", json.RawMessage(n.JSON))
	case kql.Is:
		if n.Field == nil {
			return compileAnywhere(n.Value)
		}
		return AnyOf(compileEach(fields.Expand(n.Field, n.Fits), func(f kql.Field) map[string]any { return compileIs(f, n.Value) }))
	case kql.Exists:
		return AnyOf(compileEach(fields.Expand(n.Field, matchesAny), compileExists))
	case kql.Range:
		return AnyOf(compileEach(fields.Expand(n.Field, n.Fits), func(f kql.Field) map[string]any { return compileRange(f, n) }))
	default:
		panic(fmt.Sprintf("elastic: a query node of type %T", node))
	}
}

func compileAll(nodes []kql.Node, fields kql.Fields) []map[string]any {
	return compileEach(nodes, func(node kql.Node) map[string]any { return Compile(node, fields) })
}

func compileOr(n kql.Or, fields kql.Fields) map[string]any {
	lists, others := fields.Together(n)
	clauses := compileEach(lists, func(list kql.OneOf) map[string]any {
		return Terms(list.Field.Name, list.Values)
	})
	return AnyOf(append(clauses, compileAll(others, fields)...))
}

// idField is the id of the document as well. It has no separate index, so it is
// searched by _id where that is possible.
const idField = "event.id"

// Terms matches one of several whole values.
func Terms(field string, values any) map[string]any {
	if field == idField {
		return map[string]any{"ids": map[string]any{"values": values}}
	}
	return map[string]any{"terms": map[string]any{field: values}}
}

// compileAnywhere searches the index's default fields. `lenient` leaves out those
// that cannot hold the value.
func compileAnywhere(value kql.Value) map[string]any {
	if value.Pattern.Wild() {
		return queryString(value.Pattern)
	}
	kind := "best_fields"
	if value.Quoted {
		kind = "phrase"
	}
	return map[string]any{"multi_match": map[string]any{"type": kind, "query": literal(value), "lenient": true}}
}

func compileIs(field kql.Field, value kql.Value) map[string]any {
	switch {
	case value.Pattern.Wild():
		return compilePattern(field, value.Pattern)
	case field.Type == kql.Date:
		return fieldClause("range", field, map[string]any{"gte": literal(value), "lte": literal(value)})
	case field.Name == idField:
		return Terms(idField, []any{value.Pattern.Text()})
	case field.Type == kql.Keyword:
		return fieldClause("term", field, map[string]any{"value": literal(value)})
	case value.Quoted:
		return fieldClause("match_phrase", field, literal(value))
	default:
		return fieldClause("match", field, literal(value))
	}
}

// compilePattern differs from Kibana for flattened fields, where a query_string would
// split a value at its spaces and, below a key, match values of other keys. A key gets
// a prefix query, since kql.Resolve allows no other pattern for it.
func compilePattern(field kql.Field, pattern kql.Pattern) map[string]any {
	prefix, isPrefix := pattern.Prefix()
	switch {
	case field.Parent != "" && isPrefix:
		return fieldClause("prefix", field, map[string]any{"value": prefix})
	case field.Type == kql.Keyword, field.Type == kql.Flattened:
		return fieldClause("wildcard", field, map[string]any{"value": pattern.Join("*", escape)})
	default:
		return queryString(pattern, field.Name)
	}
}

func compileExists(field kql.Field) map[string]any {
	return map[string]any{"exists": map[string]any{"field": field.Name}}
}

func compileRange(field kql.Field, n kql.Range) map[string]any {
	names := map[kql.Op]string{kql.Less: "lt", kql.LessOrEqual: "lte", kql.Greater: "gt", kql.GreaterOrEqual: "gte"}
	return fieldClause("range", field, map[string]any{names[n.Op]: literal(n.Value)})
}

func matchesAny(kql.Field) bool { return true }

// literal is a value in JSON. As in Kibana, true and false without quotes are
// booleans, and numbers are texts. Kibana also sends null, which Elasticsearch
// refuses; here it is a word.
func literal(value kql.Value) any {
	text := value.Pattern.Text()
	if !value.Quoted && (text == "true" || text == "false") {
		return text == "true"
	}
	return text
}

// escape escapes for query_string, which is also valid in a wildcard query.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune(`+-=&|><!(){}[]^"~*?:\/`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func queryString(pattern kql.Pattern, fields ...string) map[string]any {
	params := map[string]any{"query": pattern.Join("*", escape)}
	if len(fields) > 0 {
		params["fields"] = fields
	}
	return map[string]any{"query_string": params}
}

func fieldClause(kind string, field kql.Field, params any) map[string]any {
	return map[string]any{kind: map[string]any{field.Name: params}}
}

// Bool is a compound query with clauses that must, must not or should match.
func Bool(occur string, clauses any) map[string]any {
	return map[string]any{"bool": map[string]any{occur: clauses}}
}

// AnyOf without clauses matches nothing; an empty `should` would match everything.
func AnyOf(clauses []map[string]any) map[string]any {
	if len(clauses) == 0 {
		return map[string]any{"match_none": map[string]any{}}
	}
	return map[string]any{"bool": map[string]any{"should": clauses, "minimum_should_match": 1}}
}

func compileEach[T any](items []T, compile func(T) map[string]any) []map[string]any {
	compiled := make([]map[string]any, len(items))
	for i, item := range items {
		compiled[i] = compile(item)
	}
	return compiled
}

package querydsl

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/watershipmq/watership/eventstore/kql"
)

// Bounds of the queries that Check accepts.
const (
	maxDepth    = 20     // of queries within one another; Elasticsearch takes 30 (indices.query.bool.max_nested_depth)
	maxQueries  = 1_000  // within one another and next to one another
	maxPatterns = 50     // queries that look for terms by their beginnings or by wildcards
	maxText     = 10_000 // bytes of a text with operators
	maxNested   = 20     // parentheses in a text with operators
)

// kind describes a kind of query: the parameters that it may have.
type kind struct {
	queries    []string // with queries: an object, or a list of them
	parameters []string // with a text, a number, a boolean or a list of these
	ofField    bool     // the parameters are below the name of a field, or the first of them is its value
	isPattern  bool     // it looks for terms by their beginnings or by wildcards
	operators  string   // parameter with a text that has operators; "": none
}

// kinds are the queries of which Elasticsearch bounds the cost, in the order of its manual
// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/query-dsl.html). The others read
// other documents or indices (terms with a lookup, more_like_this, percolate, geo_shape),
// run programs (script, function_score, terms_set), build automata whose size the query
// chooses (regexp), or decode another query (wrapper).
func kinds() map[string]kind {
	common := []string{"boost", "_name"}
	parameters := func(names ...string) []string { return append(names, common...) }
	match := parameters("query", "operator", "minimum_should_match", "lenient", "zero_terms_query")
	return map[string]kind{
		"bool": {
			queries:    []string{"must", "filter", "should", "must_not"},
			parameters: parameters("minimum_should_match", "adjust_pure_negative"),
		},
		"boosting":       {queries: []string{"positive", "negative"}, parameters: parameters("negative_boost")},
		"constant_score": {queries: []string{"filter"}, parameters: common},
		"dis_max":        {queries: []string{"queries"}, parameters: parameters("tie_breaker")},
		"match_all":      {parameters: common},
		"match_none":     {parameters: common},

		"exists": {parameters: parameters("field")},
		"ids":    {parameters: parameters("values")},
		"prefix": {ofField: true, parameters: parameters("value", "case_insensitive"), isPattern: true},
		"range": {ofField: true, parameters: append([]string{
			"gt", "gte", "lt", "lte", "from", "to", "include_lower", "include_upper", "format", "time_zone", "relation",
		}, common...)},
		"term":     {ofField: true, parameters: parameters("value", "case_insensitive")},
		"terms":    {},
		"wildcard": {ofField: true, parameters: parameters("value", "wildcard", "case_insensitive"), isPattern: true},

		"match":               {ofField: true, parameters: match},
		"match_bool_prefix":   {ofField: true, parameters: match, isPattern: true},
		"match_phrase":        {ofField: true, parameters: parameters("query", "slop", "zero_terms_query")},
		"match_phrase_prefix": {ofField: true, parameters: parameters("query", "slop", "zero_terms_query"), isPattern: true},
		"multi_match":         {parameters: append([]string{"fields", "type", "slop", "tie_breaker"}, match...), isPattern: true},
		"query_string": {parameters: append([]string{
			"fields", "default_field", "type", "default_operator", "analyze_wildcard", "allow_leading_wildcard", "phrase_slop", "tie_breaker", "time_zone",
		}, match...), isPattern: true, operators: "query"},
		"simple_query_string": {
			parameters: append([]string{"fields", "default_operator", "analyze_wildcard"}, match...),
			isPattern:  true, operators: "query",
		},
	}
}

// Check returns an error for a query, decoded from JSON, that people must not send to
// Elasticsearch: one that reads anything but the documents which it searches, runs a
// program, or whose cost has no bound. The error of a kind or a parameter names those that
// are possible.
func Check(query any) error {
	return (&checker{kinds: kinds()}).check(query, 1)
}

type checker struct {
	kinds             map[string]kind
	queries, patterns int
}

func (c *checker) check(query any, depth int) error {
	object, isObject := query.(map[string]any)
	if !isObject || len(object) != 1 {
		return errors.New(`expected an object with one query, such as {"term": {"event.action": "poisoned"}}`)
	}
	if c.queries++; c.queries > maxQueries {
		return fmt.Errorf("more than %d queries within one another: ask in several queries", maxQueries)
	}
	if depth > maxDepth {
		return fmt.Errorf("queries are nested more than %d deep", maxDepth)
	}
	for name, value := range object {
		k, isKnown := c.kinds[name]
		if !isKnown {
			return fmt.Errorf("the query %q is not permitted: expected one of %s", name, strings.Join(slices.Sorted(maps.Keys(c.kinds)), ", "))
		}
		if k.isPattern {
			if c.patterns++; c.patterns > maxPatterns {
				return fmt.Errorf("more than %d queries for prefixes, wildcards or texts with operators: ask in several queries", maxPatterns)
			}
		}
		if err := c.checkKind(name, k, value, depth); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (c *checker) checkKind(name string, k kind, value any, depth int) error {
	members, isObject := value.(map[string]any)
	switch {
	case !isObject:
		return errors.New("expected an object")
	case name == "terms":
		return checkTerms(members)
	case !k.ofField:
		return c.checkParameters(k, members, depth)
	}
	for field, of := range members {
		parameters, isLong := of.(map[string]any)
		if !isLong {
			parameters = map[string]any{k.parameters[0]: of}
		}
		if err := c.checkParameters(k, parameters, depth); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

// checkTerms refuses a lookup: an object with the document, of any index, that has the values.
func checkTerms(members map[string]any) error {
	for field, values := range members {
		if _, isObject := values.(map[string]any); isObject {
			return fmt.Errorf("%s: expected a list of values: values of other documents cannot be looked up", field)
		}
		if err := checkValue(values); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
	}
	return nil
}

func (c *checker) checkParameters(k kind, parameters map[string]any, depth int) error {
	for name, value := range parameters {
		var err error
		switch {
		case slices.Contains(k.queries, name):
			err = c.checkQueries(value, depth+1)
		case !slices.Contains(k.parameters, name):
			return fmt.Errorf("the parameter %q is not permitted: expected one of %s", name, strings.Join(slices.Sorted(slices.Values(slices.Concat(k.queries, k.parameters))), ", "))
		default:
			err = checkParameter(k, name, value)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (c *checker) checkQueries(value any, depth int) error {
	list, isList := value.([]any)
	if !isList {
		return c.check(value, depth)
	}
	for _, query := range list {
		if err := c.check(query, depth); err != nil {
			return err
		}
	}
	return nil
}

func checkParameter(k kind, name string, value any) error {
	if err := checkValue(value); err != nil {
		return err
	}
	text, isText := value.(string)
	switch {
	case !isText || !k.isPattern:
		return nil
	case name == k.operators:
		return checkOperators(text, slices.Contains(k.parameters, "default_field"))
	case name == "value" || name == "wildcard":
		return checkWildcards(strings.Count(text, "*") + strings.Count(text, "?"))
	}
	return nil
}

// checkValue accepts a value, or a list of values, without objects.
func checkValue(value any) error {
	list, isList := value.([]any)
	if !isList {
		list = []any{value}
	}
	for _, element := range list {
		switch element.(type) {
		case map[string]any, []any:
			return errors.New("expected a text, a number or a list of them")
		}
	}
	return nil
}

func checkWildcards(n int) error {
	if n > kql.MaxWildcards {
		return fmt.Errorf("found %d wildcards, expected at most %d", n, kql.MaxWildcards)
	}
	return nil
}

// checkOperators checks the text of a query_string or a simple_query_string. Only the former
// has regular expressions, between slashes. A slash in quotes needs an escape as well: what
// Lucene takes for a quote depends on the text before it.
func checkOperators(text string, hasRegexps bool) error {
	if len(text) > maxText {
		return fmt.Errorf("the text has %d bytes, expected at most %d", len(text), maxText)
	}
	wildcards, opened, before := 0, 0, byte(0)
	for i := 0; i < len(text); i++ {
		char := text[i]
		switch {
		case char == '\\':
			i++
		case char == '/' && hasRegexps:
			return errors.New(`regular expressions are not permitted: write \/ for a slash`)
		case char == '~' && before != '"':
			return errors.New(`a fuzzy search is not permitted: write \~ for a tilde`)
		case char == '*' || char == '?':
			wildcards++
		case char == '(':
			opened++
		}
		before = char
	}
	if opened > maxNested {
		return fmt.Errorf("found %d parentheses, expected at most %d", opened, maxNested)
	}
	return checkWildcards(wildcards)
}

// Text returns the JSON of a query that Check accepts.
func Text(query any) (string, error) {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(query)
	return strings.TrimSuffix(b.String(), "\n"), err
}

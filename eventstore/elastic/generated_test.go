package elastic

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/elastic/internal/querydsl"
	"github.com/watershipmq/watership/eventstore/kql"
)

// condition is a condition in three independent forms: a text of the query language, a
// query in Elasticsearch's own DSL, and a Go function.
type condition struct {
	text string
	dsl  dsl
	is   func(sample) bool
}

// dsl is an object of the DSL in its plainest form, made without compile.
type dsl map[string]any

func all(queries ...dsl) dsl { return dsl{"bool": dsl{"must": queries}} }

func some(queries ...dsl) dsl {
	return dsl{"bool": dsl{"should": queries, "minimum_should_match": 1}}
}

func none(queries ...dsl) dsl { return dsl{"bool": dsl{"must_not": queries}} }

func (d dsl) of(kind, field string) dsl { return dsl{kind: dsl{field: d}} }

// sample is a document for the functions. Missing fields are nil.
type sample struct {
	keywords map[string]string
	texts    map[string]string
	numbers  map[string]float64
	times    map[string]time.Time
}

// generator makes conditions of the samples' values, and of a few others.
type generator struct{ *rand.Rand }

func pick[T any](g generator, list ...T) T { return list[g.IntN(len(list))] }

var (
	sampleActions = []string{"poisoned", "handled", "retry_scheduled", "published"}
	sampleTenants = []string{"acme", "acme-2", "um brella", "and", "a*c", "ünï", "null", "C:\\dir"}
	sampleWords   = []string{"cannot", "connect", "timed", "out", "order", "violin", "broken"}
)

func (g generator) sample() sample {
	s := sample{map[string]string{}, map[string]string{}, map[string]float64{}, map[string]time.Time{}}
	s.keywords["event.action"] = pick(g, sampleActions...)
	s.times["@timestamp"] = time.Date(2026, 1, 1+g.IntN(60), g.IntN(24), 0, 0, 0, time.UTC)
	if g.IntN(4) > 0 {
		s.numbers["event.duration"] = float64(g.IntN(12))
	}
	if g.IntN(3) > 0 {
		s.keywords["headers.tenant"] = pick(g, sampleTenants...)
	}
	if g.IntN(3) > 0 {
		s.keywords["labels.tenant"] = pick(g, sampleTenants...)
	}
	if g.IntN(3) > 0 {
		var words []string
		for range 1 + g.IntN(4) {
			words = append(words, pick(g, sampleWords...))
		}
		s.texts["error.message"] = strings.Join(words, " ")
	}
	return s
}

func (s sample) document() string {
	var parts []string
	for name, value := range s.keywords {
		parts = append(parts, fmt.Sprintf("%q:%q", name, value))
	}
	for name, value := range s.texts {
		parts = append(parts, fmt.Sprintf("%q:%q", name, value))
	}
	for name, value := range s.numbers {
		parts = append(parts, fmt.Sprintf("%q:%g", name, value))
	}
	for name, value := range s.times {
		parts = append(parts, fmt.Sprintf("%q:%q", name, value.Format(time.RFC3339)))
	}
	text := strings.Join(parts, ",")
	// A flattened field is an object.
	if tenant, there := s.keywords["headers.tenant"]; there {
		text = strings.Replace(text, fmt.Sprintf("%q:%q", "headers.tenant", tenant), fmt.Sprintf(`"headers":{"tenant":%q}`, tenant), 1)
	}
	return "{" + text + "}"
}

// condition is a tree that is not deeper than depth.
func (g generator) condition(depth int) condition {
	if depth == 0 {
		return g.leaf()
	}
	a, b := g.condition(depth-1), g.condition(g.IntN(depth))
	and, or, not := pick(g, "and", "AND", "And"), pick(g, "or", "OR"), pick(g, "not", "NOT")
	switch g.IntN(5) {
	case 0:
		return condition{"(" + a.text + ") " + and + " (" + b.text + ")", all(a.dsl, b.dsl), func(s sample) bool { return a.is(s) && b.is(s) }}
	case 1:
		return condition{"(" + a.text + ")  " + or + " (" + b.text + ")", some(a.dsl, b.dsl), func(s sample) bool { return a.is(s) || b.is(s) }}
	case 2:
		return condition{not + " (" + a.text + ")", none(a.dsl), func(s sample) bool { return !a.is(s) }}
	case 3: // without parentheses: `and` before `or`
		x, y, z := g.leaf(), g.leaf(), g.leaf()
		text := x.text + " " + or + " " + y.text + " " + and + " " + not + " " + z.text
		return condition{text, some(x.dsl, all(y.dsl, none(z.dsl))), func(s sample) bool { return x.is(s) || y.is(s) && !z.is(s) }}
	}
	return g.group()
}

// group is `field: (x or y and not z)`.
func (g generator) group() condition {
	field := pick(g, "event.action", "action", "labels.tenant", "headers.tenant")
	x, y, z := g.value(field), g.value(field), g.value(field)
	return condition{
		field + ": (" + x.text + " or " + y.text + " and not " + z.text + ")",
		some(x.dsl, all(y.dsl, none(z.dsl))),
		func(s sample) bool { return x.is(s) || y.is(s) && !z.is(s) },
	}
}

func (g generator) leaf() condition {
	switch g.IntN(7) {
	case 0:
		return g.number()
	case 1:
		return g.date()
	case 2:
		return g.words()
	case 3:
		field := pick(g, "event.duration", "headers.tenant", "labels.tenant", "error.message", "event.action")
		return condition{field + pick(g, ":*", ": *", " : *"), dsl{"exists": dsl{"field": field}}, func(s sample) bool { return s.has(field) }}
	default:
		field := pick(g, "event.action", "action", "headers.tenant", "labels.tenant")
		p := g.value(field)
		return condition{field + pick(g, ":", ": ", " :  ") + p.text, p.dsl, p.is}
	}
}

func (s sample) has(field string) bool {
	_, keyword := s.keywords[field]
	_, text := s.texts[field]
	_, number := s.numbers[field]
	return keyword || text || number
}

// value is one of a keyword, quoted, escaped or with a wildcard.
func (g generator) value(field string) condition {
	full := map[string]string{"action": "event.action"}[field]
	if full == "" {
		full = field
	}
	list := sampleTenants
	if full == "event.action" {
		list = sampleActions
	}
	want := pick(g, append(list, "nobody")...)
	equal := func(s sample) bool { have, there := s.keywords[full]; return there && have == want }
	term := dsl{"value": want}.of("term", full)
	switch g.IntN(3) {
	case 0:
		return condition{`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(want) + `"`, term, equal}
	case 1:
		return condition{bareWord(want), term, equal}
	}
	prefix := string([]rune(want)[:1+g.IntN(2)])
	return condition{
		bareWord(prefix) + "*",
		dsl{"value": prefix}.of("prefix", full),
		func(s sample) bool { return strings.HasPrefix(s.keywords[full], prefix) && s.keywords[full] != "" },
	}
}

// bareWord escapes the syntax of the query language.
func bareWord(text string) string {
	text = strings.NewReplacer(`\`, `\\`, `(`, `\(`, `)`, `\)`, `:`, `\:`, `<`, `\<`, `>`, `\>`, `"`, `\"`, `*`, `\*`, `{`, `\{`, `}`, `\}`).Replace(text)
	if slices.Contains([]string{"and", "or", "not"}, text) {
		return `\` + text
	}
	return text
}

func (g generator) number() condition {
	bound := float64(g.IntN(13)) - pick(g, 0, 0.5)
	text := strconv.FormatFloat(bound, 'g', -1, 64)
	op := pick(g, "<", "<=", ">", ">=", ":")
	if op == ":" {
		bound = float64(int(bound))
		text = strconv.Itoa(int(bound))
	}
	return condition{pick(g, "event.duration", "duration") + " " + op + " " + text, bounded(op, "event.duration", bound), func(s sample) bool {
		have, there := s.numbers["event.duration"]
		return there && compare(op, have, bound)
	}}
}

// bounded is a range; with a colon, of one point.
func bounded(op, field string, bound any) dsl {
	names := map[string]string{"<": "lt", "<=": "lte", ">": "gt", ">=": "gte"}
	if name := names[op]; name != "" {
		return dsl{name: bound}.of("range", field)
	}
	return dsl{"gte": bound, "lte": bound}.of("range", field)
}

func compare(op string, have, bound float64) bool {
	switch op {
	case "<":
		return have < bound
	case "<=":
		return have <= bound
	case ">":
		return have > bound
	case ">=":
		return have >= bound
	}
	return have == bound
}

func (g generator) date() condition {
	bound := time.Date(2026, 1, 1+g.IntN(60), g.IntN(24), 0, 0, 0, time.UTC)
	op := pick(g, "<", "<=", ">", ">=")
	text := pick(g, `"`+bound.Format(time.RFC3339)+`"`, strconv.FormatInt(bound.UnixMilli(), 10), `"`+bound.Add(-24*time.Hour).Format(time.RFC3339)+`||+1d"`)
	return condition{"@timestamp" + op + text, bounded(op, "@timestamp", bound.Format(time.RFC3339)), func(s sample) bool {
		return compare(op, float64(s.times["@timestamp"].Unix()), float64(bound.Unix()))
	}}
}

// words matches any of some words, or all of them in this order.
func (g generator) words() condition {
	words := []string{pick(g, sampleWords...), pick(g, sampleWords...)}
	phrase := strings.Join(words, " ")
	if g.IntN(2) == 0 {
		return condition{`error.message: "` + strings.ToUpper(phrase) + `"`, dsl{"query": phrase}.of("match_phrase", "error.message"), func(s sample) bool {
			return strings.Contains(" "+s.texts["error.message"]+" ", " "+phrase+" ")
		}}
	}
	either := some(dsl{"value": words[0]}.of("term", "error.message"), dsl{"value": words[1]}.of("term", "error.message"))
	return condition{"error.message: " + phrase, either, func(s sample) bool {
		return slices.ContainsFunc(strings.Fields(s.texts["error.message"]), func(word string) bool { return slices.Contains(words, word) })
	}}
}

// TestGeneratedQueries: three hundred generated queries find the same documents in all
// forms. The seed is fixed, and a failure prints the query.
func TestGeneratedQueries(t *testing.T) {
	t.Parallel() // most of it is waiting
	g := generator{rand.New(rand.NewPCG(20260504, 300))}
	index := newDSLIndex(t)
	for id := range dslDocuments {
		index.do(t, "DELETE", "/_doc/"+id, "")
	}
	samples := map[string]sample{}
	for n := range 60 {
		id := fmt.Sprintf("s%02d", n)
		samples[id] = g.sample()
		index.do(t, "PUT", "/_doc/"+id, samples[id].document())
	}
	index.do(t, "POST", "/_refresh", "")
	partly, hits := 0, 0
	for range 300 {
		c := g.condition(g.IntN(4))
		var want []string
		for id, s := range samples {
			if c.is(s) {
				want = append(want, id)
			}
		}
		slices.Sort(want)
		if got := index.findAll(t, c.text); got != strings.Join(want, " ") {
			t.Errorf("%s\n got %s\nwant %s", c.text, got, strings.Join(want, " "))
		}
		if got := index.all(t, c.text, c.dsl); got != strings.Join(want, " ") {
			t.Errorf("by hand: %s\n got %s\nwant %s", c.text, got, strings.Join(want, " "))
		}
		if hits += len(want); len(want) > 0 && len(want) < len(samples) {
			partly++
		}
	}
	if partly < 150 {
		t.Errorf("only %d queries find some and not all", partly)
	}
	t.Logf("%d of 300 queries find some of the documents and not all; %d hits", partly, hits)
}

// findAll is find for more than ten hits, with the printed query.
func (i dslIndex) findAll(t *testing.T, text string) string {
	t.Helper()
	node, err := kql.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if node, err = kql.Resolve(node, dslFields); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	again, err := kql.Parse(node.String())
	if err != nil {
		t.Fatalf("%s prints as %s: %v", text, node, err)
	}
	return i.all(t, text, querydsl.Compile(again, dslFields))
}

// all returns the names of all documents that a query in the DSL finds.
func (i dslIndex) all(t *testing.T, text string, q any) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"size": 1000, "_source": false, "query": q})
	if err != nil {
		t.Fatal(err)
	}
	status, response := i.request(t, "POST", "/_search", string(body))
	found, err := parseSearch(response, readRawSource)
	if err != nil || status != 200 {
		t.Fatalf("%s: %d %s", text, status, response)
	}
	var ids []string
	for _, h := range found.Hits {
		ids = append(ids, h.ID)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

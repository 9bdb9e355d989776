package sqlite

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// model is a store in memory, without SQL and without indexes: a list of documents that
// it reads whole for every request.
type model struct {
	fields kql.Fields
	docs   []modelDocument
}

type modelDocument struct {
	id       string
	stream   schemas.Stream
	sequence int64
	at       int64               // @timestamp, in milliseconds
	values   map[string][]string // by the full name of the field
}

// create answers as the store does.
func (m *model) create(t *testing.T, docs []schemas.Document) []eventstore.Result {
	t.Helper()
	results := make([]eventstore.Result, len(docs))
	for i, doc := range docs {
		existing := slices.IndexFunc(m.docs, func(d modelDocument) bool { return d.id == doc.ID })
		switch {
		case doc.ID == "" || !json.Valid(doc.Source):
			results[i].Status = eventstore.Refused
		case existing >= 0:
			results[i] = eventstore.Result{Status: eventstore.Conflict, Index: string(m.docs[existing].stream)}
		default:
			results[i].Status = eventstore.Created
			m.docs = append(m.docs, newModelDocument(t, doc))
		}
	}
	return results
}

func newModelDocument(t *testing.T, doc schemas.Document) modelDocument {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(doc.Source))
	decoder.UseNumber()
	var members map[string]any
	if err := decoder.Decode(&members); err != nil {
		t.Fatal(err)
	}
	delete(members, "amqp")
	d := modelDocument{id: doc.ID, stream: doc.Stream, values: map[string][]string{}}
	d.add("", members)
	d.values["event.id"] = []string{doc.ID}
	at, err := time.Parse(time.RFC3339Nano, d.values["@timestamp"][0])
	if err != nil {
		t.Fatal(err)
	}
	d.at = at.UnixMilli()
	d.sequence, _ = strconv.ParseInt(d.values["event.sequence"][0], 10, 64)
	return d
}

func (d *modelDocument) add(name string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			d.add(strings.TrimPrefix(name+"."+key, "."), member)
		}
	case []any:
		for _, element := range v {
			d.add(name, element)
		}
	case nil:
	default:
		d.values[name] = append(d.values[name], fmt.Sprint(v))
	}
}

// of returns the values of a field: of all its keys for a flattened field and a family.
func (d modelDocument) of(f kql.Field) []string {
	root, family := strings.CutSuffix(f.Name, ".*")
	if !family && (f.Type != kql.Flattened || f.Parent != "") {
		return d.values[f.Name]
	}
	var all []string
	for name, values := range d.values {
		if strings.HasPrefix(name, root+".") {
			all = append(all, values...)
		}
	}
	return all
}

func (m *model) selects(t *testing.T, n kql.Node, d modelDocument) bool {
	t.Helper()
	some := func(nodes []kql.Node) bool {
		return slices.ContainsFunc(nodes, func(n kql.Node) bool { return m.selects(t, n, d) })
	}
	switch n := n.(type) {
	case kql.All:
		return true
	case kql.And:
		return !slices.ContainsFunc(n, func(n kql.Node) bool { return !m.selects(t, n, d) })
	case kql.Or:
		return some(n)
	case kql.Not:
		return !m.selects(t, n.Node, d)
	case kql.Exists:
		fields := m.fields.Below(n.Field.Text())
		if n.Field.Wild() || len(fields) == 0 {
			fields = m.fields.Expand(n.Field, func(kql.Field) bool { return true })
		}
		return slices.ContainsFunc(fields, func(f kql.Field) bool { return len(d.of(f)) > 0 })
	case kql.Is:
		fields := m.fields.Known
		if n.Field != nil {
			fields = m.fields.Expand(n.Field, n.Fits)
		}
		return slices.ContainsFunc(fields, func(f kql.Field) bool { return n.Fits(f) && hasValue(d.of(f), f.Type, n.Value) })
	case kql.Range:
		return slices.ContainsFunc(m.fields.Expand(n.Field, n.Fits), func(f kql.Field) bool {
			return slices.ContainsFunc(d.of(f), func(has string) bool { return inRange(has, f.Type, n.Op, n.Value.Pattern.Text()) })
		})
	}
	t.Fatalf("the model has no %T", n)
	return false
}

func hasValue(values []string, kind kql.FieldType, wanted kql.Value) bool {
	text := wanted.Pattern.Text()
	return slices.ContainsFunc(values, func(has string) bool {
		switch kind {
		case kql.Text: // the texts of this test are ASCII letters and spaces
			own, want := strings.Fields(strings.ToLower(has)), strings.Fields(strings.ToLower(text))
			switch {
			case wanted.Quoted:
				return phraseIn(own, want)
			case wanted.Pattern.Wild():
				return slices.ContainsFunc(own, wanted.Pattern.Match)
			}
			return slices.ContainsFunc(want, func(word string) bool { return slices.Contains(own, word) })
		case kql.Long, kql.Double, kql.Date:
			return inRange(has, kind, kql.GreaterOrEqual, text) && inRange(has, kind, kql.LessOrEqual, text)
		}
		return wanted.Pattern.Match(has)
	})
}

func phraseIn(words, phrase []string) bool {
	for i := range len(words) - len(phrase) + 1 {
		if slices.Equal(words[i:i+len(phrase)], phrase) {
			return true
		}
	}
	return false
}

func inRange(has string, kind kql.FieldType, op kql.Op, text string) bool {
	order := strings.Compare(has, text)
	switch kind {
	case kql.Long, kql.Double:
		left, _ := strconv.ParseFloat(has, 64)
		right, _ := strconv.ParseFloat(text, 64)
		order = cmp.Compare(left, right)
	case kql.Date:
		left, _ := time.Parse(time.RFC3339Nano, has)
		right, _ := kql.Instant(text, time.Now().UTC(), op.End())
		order = cmp.Compare(left.UnixMilli(), right.UnixMilli())
	case kql.Text:
		return slices.ContainsFunc(strings.Fields(strings.ToLower(has)), func(word string) bool { return inRange(word, kql.Keyword, op, text) })
	}
	return order < 0 && op[0] == '<' || order > 0 && op[0] == '>' || order == 0 && len(op) == 2
}

// list returns the selected documents, in order.
func (m *model) list(t *testing.T, sel eventstore.Selection) []modelDocument {
	t.Helper()
	var found []modelDocument
	for _, d := range m.docs {
		isAfter := sel.Order != eventstore.BySequence || cmp.Or(cmp.Compare(d.sequence, sel.After.Sequence), cmp.Compare(d.id, sel.After.EventID)) > 0
		if m.selects(t, sel.Query, d) && (sel.UpTo == 0 || d.sequence <= sel.UpTo) && isAfter {
			found = append(found, d)
		}
	}
	slices.SortFunc(found, func(a, b modelDocument) int {
		if sel.Order == eventstore.BySequence {
			return cmp.Or(cmp.Compare(a.sequence, b.sequence), cmp.Compare(a.id, b.id))
		}
		return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.sequence, a.sequence), cmp.Compare(a.id, b.id))
	})
	if sel.Limit > 0 {
		found = found[:min(sel.Limit, len(found))]
	}
	return found
}

func (m *model) topValues(t *testing.T, query kql.Node, field string, n int) (top eventstore.Aggregation) {
	t.Helper()
	f, _ := m.fields.Lookup(field)
	counts := map[string]int64{}
	for _, d := range m.list(t, eventstore.Selection{Query: query}) {
		values := d.of(f)
		if len(values) == 0 {
			top.Without++
		}
		for _, value := range slices.Compact(slices.Sorted(slices.Values(values))) {
			counts[value]++
		}
	}
	var all []eventstore.Bucket
	for text, count := range counts {
		all = append(all, eventstore.Bucket{Text: text, Count: count})
	}
	slices.SortFunc(all, func(a, b eventstore.Bucket) int {
		byText := strings.Compare(a.Text, b.Text)
		if f.Type == kql.Long {
			left, _ := strconv.Atoi(a.Text)
			right, _ := strconv.Atoi(b.Text)
			byText = cmp.Compare(left, right)
		}
		return cmp.Or(cmp.Compare(b.Count, a.Count), byText)
	})
	for i, bucket := range all {
		if i < n {
			top.Values = append(top.Values, bucket)
		} else {
			top.Others += bucket.Count
		}
	}
	return top
}

// histogram counts each document in the step that begins at or before its time.
func (m *model) histogram(t *testing.T, query kql.Node, n int, zone *time.Location) (over eventstore.Aggregation) {
	t.Helper()
	found := m.list(t, eventstore.Selection{Query: query})
	if len(found) == 0 {
		return over
	}
	last, first := found[0].at, found[len(found)-1].at
	step := eventstore.NewSteps(time.UnixMilli(first), time.UnixMilli(last), n, zone).Length.Milliseconds()
	_, offset := time.UnixMilli(last).In(zone).Zone()
	begin := first - ((first+int64(offset)*1000)%step+step)%step
	for ; begin <= last; begin += step {
		bucket := eventstore.Bucket{Text: time.UnixMilli(begin).UTC().Format("2006-01-02T15:04:05.000Z")}
		for _, d := range found {
			if d.at >= begin && d.at < begin+step {
				bucket.Count++
			}
		}
		over.Values = append(over.Values, bucket)
	}
	return over
}

// generator makes random documents and queries that often fit each other.
type generator struct {
	*rand.Rand
	now time.Time
	ids int
}

func (g *generator) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g *generator) words() string {
	var list []string
	for range g.IntN(6) {
		list = append(list, g.pick("no", "stock", "of", "Violins", "timeout", "a"))
	}
	return strings.Join(list, " ")
}

func (g *generator) document() schemas.Document {
	g.ids++
	e := schemas.Event{
		Action: schemas.Action(g.pick("published", "handled", "poisoned", "retry_scheduled")), Source: g.pick("a", "b"), VHost: "/",
		Sequence: g.now.Add(-time.Duration(g.IntN(2))*2*time.Hour).UnixMicro() - g.Int64N(1000),
	}
	e.EventID = fmt.Sprintf("e-%05d", g.ids)
	if g.IntN(8) == 0 {
		e.EventID = fmt.Sprintf("e-%05d", 1+g.IntN(g.ids)) // of an earlier document, or its own
	}
	e.Time = time.Date(2026, 5, 4, g.IntN(48), g.IntN(60), 0, g.IntN(1e9), time.UTC)
	if g.IntN(2) == 0 {
		e.Time = e.Time.Truncate(6 * time.Hour) // as other events
	}
	e.Queue, e.Attempt, e.Failure = g.pick("", "orders", "orders.eu", "mail"), g.IntN(12), schemas.Failure{Message: g.words(), Class: g.pick("", "default")}
	e.Envelope = schemas.Envelope{
		Exchange: g.pick("", "shop"), RoutingKey: g.pick("order.created", "order.paid"),
		Headers: amqp.Table{"tenant": g.pick("acme", "umbrella", "acme*"), "n": int64(g.IntN(20)), "deep": amqp.Table{"list": []any{g.pick("x", "y"), "x", int32(g.IntN(3))}}},
		Body:    []byte(g.words()),
	}
	if g.IntN(2) == 0 {
		e.Envelope.Body = fmt.Appendf(nil, `{"order":{"total":%d,"lines":[{"sku":"%s"},{"sku":"b"}]}}`, g.IntN(5), g.pick("a", "c"))
	}
	e.BodySize, e.Fingerprint = len(e.Envelope.Body), e.Envelope.Fingerprint()
	return schemas.DocumentFormat{Labels: []string{"tenant"}, NumericLabels: []string{"n"}, NoBodyText: bytes.HasPrefix(e.Envelope.Body, []byte("{"))}.Document(e)
}

func (g *generator) query(depth int) string {
	if depth > 0 && g.IntN(3) > 0 {
		return "(" + g.query(depth-1) + g.pick(") and (", ") or (", ") and not (") + g.query(depth-1) + ")"
	}
	keyword := g.pick("watership.queue", "event.action", "labels.tenant", "headers.tenant", "headers", "headers.deep.list", "body.json.order.lines.sku", "watership.class", "messaging.destination.name", "watership.q*", "labels.*")
	value := g.pick("orders", "orders*", "acme", `acme\*`, `"acme*"`, "poisoned", "p*", "default", "x", "b", "shop", "nobody")
	switch g.IntN(8) {
	case 0:
		return g.pick("watership.attempt", "numeric_labels.n", "messaging.message.body.size") + g.pick(": ", " > ", " >= ", " < ", " <= ") + g.pick("0", "3", "7.5", "10", "-1")
	case 1:
		return "@timestamp" + g.pick(": ", " > ", " >= ", " < ", " <= ") + g.pick("2026-05-04", `"2026-05-04T13"`, `"2026-05-05T01:30"`, "2026-05-04||+1d/d", "now-1000d/d", "1777900000000")
	case 2:
		return g.pick("error.message", "body.text") + ": " + g.pick("stock", "no violins", `"no stock"`, `"stock of violins"`, "vio*", "*o*", "VIOLINS", `"a a"`)
	case 3:
		return g.pick("error.message", "watership.queue", "error", "headers.deep", "body.json", "watership.class", "labels", "body", "event.*") + ": *"
	case 4:
		return g.pick("watership.queue", "event.action") + g.pick(" > ", " <= ") + g.pick("mail", "orders", "p", `"orders.eu"`)
	case 5:
		return g.pick("stock", "acme", "3", "orders", `"no stock"`, "published", "x")
	}
	if strings.HasPrefix(keyword, "headers.") && strings.HasPrefix(value, "*") {
		value = "x"
	}
	return keyword + ": " + value
}

// The store answers as the model does, after any history of creating, of removing what
// exceeds the retention, of closing and opening the file.
func TestStoreIsItsModel(t *testing.T) { compareHistories(t, 3, 5) }

// TestSoakStoreIsItsModel compares longer: the race detector makes each query slow.
func TestSoakStoreIsItsModel(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("WATERSHIP_TEST_SOAK is not set")
	}
	compareHistories(t, 20, 15)
}

// compareHistories compares some histories, each after each of its steps by some queries.
func compareHistories(t *testing.T, histories uint64, queries int) {
	t.Helper()
	t.Parallel()
	for seed := range histories {
		cfg := Config{
			Path: filepath.Join(t.TempDir(), "model.db"), Labels: []string{"labels.tenant", "numeric_labels.n"},
			Retention: map[schemas.Stream]time.Duration{schemas.Traffic: time.Hour},
		}
		s := installed(t, cfg)
		m := &model{fields: s.layout.fields}
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 61)), now: time.Now()}
		for range 10 {
			switch g.IntN(4) {
			case 0:
				s = reopened(t, s, cfg)
			case 1:
				retainBoth(t, s, m, g.now.Add(-time.Hour))
			default:
				createBoth(t, s, m, g)
			}
			for range queries {
				compare(t, s, m, g)
			}
		}
		wantConsistent(t, s)
	}
}

func reopened(t *testing.T, s *Store, cfg Config) *Store {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, cfg)
}

func retainBoth(t *testing.T, s *Store, m *model, before time.Time) {
	t.Helper()
	all := len(m.docs)
	m.docs = slices.DeleteFunc(m.docs, func(d modelDocument) bool {
		return d.stream == schemas.Traffic && d.sequence < before.UnixMicro()
	})
	removed, err := s.Retain(t.Context())
	if err != nil || int(removed) != all-len(m.docs) {
		t.Fatalf("removed %d, %v, want %d", removed, err, all-len(m.docs))
	}
}

func createBoth(t *testing.T, s *Store, m *model, g *generator) {
	t.Helper()
	docs := []schemas.Document{{ID: "", Stream: schemas.Traffic}, {ID: "cut", Stream: schemas.Traffic, Source: []byte(`{"event":`)}}[g.IntN(3)%2:]
	for range g.IntN(60) {
		docs = append(docs, g.document())
	}
	g.Shuffle(len(docs), func(i, j int) { docs[i], docs[j] = docs[j], docs[i] })
	got, err := s.Create(t.Context(), docs)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range m.create(t, docs) {
		if got[i].Status != want.Status || got[i].Index != want.Index {
			t.Fatalf("document %q: got %+v, want %+v", docs[i].ID, got[i], want)
		}
	}
}

func compare(t *testing.T, s *Store, m *model, g *generator) {
	t.Helper()
	text := g.query(3)
	parsed, err := kql.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	query, err := kql.Resolve(parsed, m.fields)
	if err != nil {
		return // such as a range of a keyword that has no order
	}
	sel := eventstore.Selection{Query: query, Order: eventstore.Order(g.IntN(2)), Limit: g.IntN(3) * g.IntN(20), WithoutBody: g.IntN(2) == 0}
	if len(m.docs) > 0 {
		place := m.docs[g.IntN(len(m.docs))]
		if sel.Order == eventstore.BySequence && g.IntN(2) == 0 {
			sel.After = eventstore.Cursor{Sequence: place.sequence, EventID: place.id}
		}
		if g.IntN(4) == 0 {
			sel.UpTo = place.sequence
		}
	}
	var want []string
	for _, d := range m.list(t, sel) {
		want = append(want, d.id)
	}
	if got := ids(t, s, sel); !slices.Equal(got, want) {
		t.Fatalf("%s, %+v:\n got %v\nwant %v", text, sel, got, want)
	}
	if got, err := s.Count(t.Context(), eventstore.Selection{Query: query}); err != nil || int(got) != len(m.list(t, eventstore.Selection{Query: query})) {
		t.Fatalf("%s: counted %d, %v", text, got, err)
	}
	field, n := g.pick("watership.queue", "event.action", "watership.attempt", "headers.tenant", "headers.deep.list", "labels.tenant", "headers", "body.json"), g.IntN(5)
	top, err := s.TopValues(t.Context(), eventstore.Selection{Query: query}, field, n)
	if want := m.topValues(t, query, field, n); err != nil || fmt.Sprint(top) != fmt.Sprint(want) {
		t.Fatalf("%s, the top %d of %s: %v\n got %+v\nwant %+v", text, n, field, err, top, want)
	}
	zone := time.FixedZone("", (g.IntN(27)-12)*3600+g.IntN(2)*1800)
	steps := 4 + g.IntN(30)
	over, err := s.Histogram(t.Context(), eventstore.Selection{Query: query}, "@timestamp", steps, zone)
	if want := m.histogram(t, query, steps, zone); err != nil || fmt.Sprint(over) != fmt.Sprint(want) {
		t.Fatalf("%s in %d steps: %v\n got %+v\nwant %+v", text, steps, err, over, want)
	}
}

package sqlite

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite/internal/scalar"
	"github.com/watershipmq/watership/schemas"
)

// oddValues have a meaning in SQL, in its patterns, in FTS5 or in KQL if they get there
// without escapes.
var oddValues = []string{
	"", "'", `"`, `'; DROP TABLE event; --`, "%", "_", "*", "?", "[a-z]", `\`, "a\x00b", "\x00", "NEAR(a b)", "a OR b", "-a", "^a", "{a}:", `body.text : x`,
	"ünï", "日本", "\u3000", "𝄞", "\U0010FFFF", "1", "-1.5", "1e400", "9223372036854775808", "now-1d", "2026-01-01", "true", strings.Repeat("long", 3000),
}

// randomQuery makes a tree of odd values, also trees that Parse never returns.
func randomQuery(r *rand.Rand, fields []string, depth int) kql.Node {
	switch r.IntN(5 + 4*min(depth, 1)) {
	case 0:
		return kql.Exists{Field: randomField(r, fields)}
	case 1:
		ops := []kql.Op{kql.Less, kql.LessOrEqual, kql.Greater, kql.GreaterOrEqual}
		return kql.Range{Field: randomField(r, fields), Op: ops[r.IntN(4)], Value: kql.Value{Pattern: kql.Pattern{oddValues[r.IntN(len(oddValues))]}}}
	case 2:
		return kql.Is{Value: randomValue(r)}
	case 3, 4:
		return kql.Is{Field: randomField(r, fields), Value: randomValue(r)}
	case 5:
		return kql.And{randomQuery(r, fields, depth-1), randomQuery(r, fields, depth-1)}
	case 6:
		return kql.Or{randomQuery(r, fields, depth-1), randomQuery(r, fields, depth-1), kql.All{}}
	case 7:
		return kql.Not{Node: randomQuery(r, fields, depth-1)}
	}
	return []kql.Node{kql.And{}, kql.Or{}, nil}[r.IntN(3)]
}

func randomField(r *rand.Rand, fields []string) kql.Pattern {
	name := fields[r.IntN(len(fields))]
	switch r.IntN(6) {
	case 0:
		return kql.Pattern{name[:1], ""}
	case 1:
		return kql.Pattern{"", name[len(name)-1:]}
	case 2:
		return kql.Pattern{name + "." + oddValues[r.IntN(len(oddValues))]}
	}
	return kql.Pattern{name}
}

func randomValue(r *rand.Rand) kql.Value {
	pattern := kql.Pattern{oddValues[r.IntN(len(oddValues))]}
	for range r.IntN(3) {
		pattern = append(pattern, oddValues[r.IntN(len(oddValues))])
	}
	return kql.Value{Pattern: pattern, Quoted: !pattern.Wild() && r.IntN(2) == 0}
}

// TestNoQueryIsAnError: SQLite accepts the SQL of every query, and no value of the query
// is in its text.
func TestNoQueryIsAnError(t *testing.T) {
	t.Parallel()
	s := installed(t, Config{})
	create(t, s, eventDocuments("", 1, 3)...)
	fields := []string{"labels", "labels.tenant", "numeric_labels.total", "headers.tenant", "nobody", "body.json.a"}
	for _, field := range s.layout.fields.Known {
		fields = append(fields, strings.TrimSuffix(field.Name, ".*"))
	}
	own := sqlWords(s.layout)
	r := rand.New(rand.NewPCG(1, 2))
	for range 80 {
		node := randomQuery(r, fields, 2)
		sel := eventstore.Selection{Query: node, Order: eventstore.Order(r.IntN(2)), UpTo: 1 + r.Int64N(3), After: eventstore.Cursor{Sequence: r.Int64N(2)}}
		filter, err := s.filter("testing", sel)
		if err != nil {
			t.Fatalf("%#v: %v", node, err)
		}
		if unknown := strings.TrimSpace(own.ReplaceAllString(filter.sql, "")); unknown != "" {
			t.Fatalf("%#v: the SQL has %q in it: %s", node, unknown, filter.sql)
		}
		counted, err := s.Count(t.Context(), sel)
		if err != nil {
			t.Fatalf("%#v: %v", node, err)
		}
		not, err := s.Count(t.Context(), eventstore.Selection{Query: kql.Not{Node: node}})
		if all, _ := s.Count(t.Context(), eventstore.Selection{Query: node}); err != nil || all+not != 3 || counted > all {
			t.Fatalf("%#v: %d are it and %d are not, of 3 (%v)", node, all, not, err)
		}
	}
}

// sqlWords matches everything that the SQL of a filter can consist of.
func sqlWords(l layout) *regexp.Regexp {
	words := []string{
		`\+?\b(event|posting|list)\.`, `\b(SELECT|FROM|WHERE|IN|AND|OR|NOT|IS|NULL|TRUE|FALSE|UNION|INTERSECT|ALL|BETWEEN|MATCH|AS|CROSS|JOIN|ON)\b`,
		`\b(event|term|key|text|word|n|id|doc|col|field|name|value|rowid|matches|typeof)\b`,
		`\b(number|posting|beginning|list|term_value|json_each|substr|coalesce|printf|rtrim)\b`, `\|\|`, `'(%x=|"|""|" \*|=)'`, `-16`, `"event\.(sequence|id)"`, `= 'text'`, `[=<>?(),]`,
	}
	for _, column := range l.columns {
		words = append(words, regexp.QuoteMeta(quoteName(column)))
	}
	return regexp.MustCompile(strings.Join(words, "|"))
}

// TestOddValuesAreFound: each value is found by itself and by its beginning, and no other
// event is.
func TestOddValuesAreFound(t *testing.T) {
	t.Parallel()
	s := installed(t, Config{})
	var docs []schemas.Document
	for n, value := range oddValues {
		e := event("", n+1)
		e.Envelope.Headers = map[string]any{"odd": value}
		e.Envelope.Properties.AppID = value
		docs = append(docs, schemas.DocumentFormat{Labels: []string{"odd"}}.Document(e))
	}
	create(t, s, docs...)
	for n, value := range oddValues {
		if value == "" || len(value) > scalar.MaxKeywordLength {
			continue
		}
		for _, field := range []string{"headers.odd", "headers", "labels.odd", "messaging.app_id"} {
			for _, pattern := range []kql.Pattern{{value}, {value, ""}, {"", value}, {value[:1], value[1:]}} {
				is := kql.Is{Field: kql.Pattern{field}, Value: kql.Value{Pattern: pattern}}
				var want []int64
				for m, other := range oddValues {
					if pattern.Match(other) && (other != "" || field != "messaging.app_id") && len(other) <= scalar.MaxKeywordLength {
						want = append(want, int64(m+1))
					}
				}
				if got := sequences(t, s, is); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("%d %s: %q: got %v, want %v", n, field, pattern, got, want)
				}
			}
		}
	}
}

// TestLargeQueries: a thousand pasted ids work, and more than SQLite can take is an error.
func TestLargeQueries(t *testing.T) {
	t.Parallel()
	s := installed(t, Config{})
	create(t, s, eventDocuments("", 1, 3)...)
	var ids, words []string
	for n := range 1000 {
		ids = append(ids, fmt.Sprint("m-", n+2))
		words = append(words, fmt.Sprint("w", n, "*"))
	}
	for text, want := range map[string]int{
		"messaging.message.id: (" + strings.Join(ids, " or ") + ")":                              2,
		"messaging.message.id: m-1 or headers.n: (" + strings.Join(ids[:300], " or ") + " or 3)": 2,
		strings.Repeat("not (", 25) + "headers.n: 1" + strings.Repeat(")", 25):                   2,
		"body.text: " + strings.Join(words[:32], " ") + " hello":                                 3,
	} {
		node, err := kql.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := sequences(t, s, node); len(got) != want {
			t.Errorf("%.60s: got %v, want %d", text, got, want)
		}
	}
	node, err := kql.Parse(strings.Join(words, " or "))
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Count(t.Context(), eventstore.Selection{Query: node})
	wantLine(t, err, "counting events", "too many values")
}

func sequences(t *testing.T, s *Store, node kql.Node) []int64 {
	t.Helper()
	var list []int64
	for e, err := range s.Events(t.Context(), eventstore.Selection{Query: node, Order: eventstore.BySequence}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e.Sequence)
	}
	return list
}

func TestRawIsRefused(t *testing.T) {
	s := installed(t, Config{})
	sel := eventstore.Selection{Query: kql.And{kql.Raw{JSON: `{"match_all":{}}`}}}
	_, err := s.Count(t.Context(), sel)
	wantLine(t, err, "counting events", "own language", "write it in KQL")
	for _, err := range s.Events(t.Context(), sel) {
		wantLine(t, err, "reading events", "own language")
	}
	if _, err := s.TopValues(t.Context(), sel, "event.action", 1); err == nil {
		t.Error("the values of it were counted")
	}
}

// TestRetain: Retain removes old events from every table, and no others.
func TestRetain(t *testing.T) {
	t.Parallel()
	s := installed(t, Config{Retention: map[schemas.Stream]time.Duration{schemas.Traffic: time.Hour}})
	now := time.Now()
	var docs []schemas.Document
	for n := range 2*maxRemovedEvents + 50 {
		e := event("", n)
		e.Sequence = now.Add(-2 * time.Hour).UnixMicro()
		switch {
		case n%10 == 0:
			e.Action = schemas.Poisoned // without a retention
		case n%10 == 1:
			e.Sequence = now.Add(-time.Minute).UnixMicro()
		}
		docs = append(docs, schemas.DocumentFormat{}.Document(e))
	}
	create(t, s, docs...)
	want := int64(len(docs)) * 8 / 10
	if removed, err := s.Retain(t.Context()); err != nil || removed != want {
		t.Errorf("removed %d of %d, %v; want %d", removed, len(docs), err, want)
	}
	wantConsistent(t, s)
	if n, err := s.Count(t.Context(), eventstore.Selection{}); err != nil || n != int64(len(docs))-want {
		t.Errorf("%d are left, %v", n, err)
	}
	if n := column(t, s, "SELECT count(*) FROM text")[0]; n != fmt.Sprint(int64(len(docs))-want) {
		t.Errorf("the words of %s are left", n)
	}
	if removed, err := s.Retain(t.Context()); err != nil || removed != 0 {
		t.Errorf("removed %d once more, %v", removed, err)
	}
}

// TestRetainRemovesInvalidDocuments: documents that were changed by hand, or corrupted on
// the disk, are removed too.
func TestRetainRemovesInvalidDocuments(t *testing.T) {
	t.Parallel()
	s := installed(t, Config{Retention: map[schemas.Stream]time.Duration{schemas.Traffic: time.Hour}})
	create(t, s, eventDocuments("old-", 1, 5)...)
	execSQL(t, s.path, "UPDATE document SET head = x'7b7b' WHERE n = 3")
	execSQL(t, s.path, "UPDATE document SET body = x'' WHERE n = 4")
	if removed, err := s.Retain(t.Context()); removed != 5 || err != nil {
		t.Errorf("removed %d of 5, %v", removed, err)
	}
	wantConsistent(t, s)
	for _, table := range []string{"term", "key", "text"} {
		if left := column(t, s, "SELECT count(*) FROM "+table)[0]; left != "0" {
			t.Errorf("%s rows of %s are left", left, table)
		}
	}
}

// TestRetainShrinksTheFile: most of the bytes of removed events are given back.
func TestRetainShrinksTheFile(t *testing.T) {
	t.Parallel()
	s := installed(t, Config{Retention: map[schemas.Stream]time.Duration{schemas.Traffic: time.Hour}})
	pages := func() int64 {
		count, err := strconv.ParseInt(column(t, s, "SELECT page_count FROM pragma_page_count")[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
	const batch, kept = 500, 100
	for n := 0; n < 4*batch; n += batch {
		create(t, s, eventDocuments("", n+1, n+batch)...)
	}
	before := pages()
	for n := range kept {
		e := event("new-", n+1)
		e.Sequence = time.Now().UnixMicro()
		create(t, s, schemas.DocumentFormat{}.Document(e))
	}
	if removed, err := s.Retain(t.Context()); removed != 4*batch || err != nil {
		t.Fatalf("removed %d, %v", removed, err)
	}
	if after := pages(); after > before/4 {
		t.Errorf("the file had %d pages, now %d", before, after)
	}
	wantConsistent(t, s)
	for asked, want := range map[string]int64{"headers.tenant: t3": 14, "body.text: hello": kept, "event.id: new*": kept, "event.id: 000*": 0} {
		if n, err := s.Count(t.Context(), eventstore.Selection{Query: node(t, asked)}); n != want || err != nil {
			t.Errorf("%s: found %d, %v; want %d", asked, n, err, want)
		}
	}
	create(t, s, eventDocuments("later-", 1, batch)...)
}

// TestRetainLimitsTransactions: a transaction removes few large events.
func TestRetainLimitsTransactions(t *testing.T) {
	t.Parallel()
	s := installed(t, Config{})
	const large = 5 << 20 // and a third more as base64
	random := rand.NewChaCha8([32]byte{})
	for n := range 5 {
		e := event("large-", n+1)
		e.Envelope.Body = make([]byte, large)
		if n == 4 {
			e.Envelope.Body = make([]byte, 4*large)
		}
		random.Read(e.Envelope.Body) // which cannot be compressed
		create(t, s, schemas.DocumentFormat{NoBodyText: true}.Document(e))
	}
	for round, want := range []struct {
		removed int64
		more    bool
	}{{2, true}, {2, true}, {1, false}, {0, false}} {
		if removed, more, err := s.removeOldest(t.Context(), schemas.Traffic, time.Now()); removed != want.removed || more != want.more || err != nil {
			t.Errorf("round %d removed %d, more: %v, %v; want %+v", round, removed, more, err, want)
		}
	}
	wantConsistent(t, s)
}

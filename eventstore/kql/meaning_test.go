package kql

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// event is a document for the model below: the values of its fields.
type event map[string]string

// selects is a model of a store: it says whether a resolved query selects an event. It
// knows the types keyword, long and date.
func selects(t *testing.T, n Node, e event, fields Fields, now time.Time) bool {
	t.Helper()
	any := func(nodes []Node) bool {
		return slices.ContainsFunc(nodes, func(n Node) bool { return selects(t, n, e, fields, now) })
	}
	switch n := n.(type) {
	case All:
		return true
	case And:
		return !slices.ContainsFunc(n, func(n Node) bool { return !selects(t, n, e, fields, now) })
	case Or:
		return any(n)
	case Not:
		return !selects(t, n.Node, e, fields, now)
	case Exists:
		return slices.ContainsFunc(fields.Expand(n.Field, func(Field) bool { return true }), func(f Field) bool { return e[f.Name] != "" })
	case Is:
		return slices.ContainsFunc(fields.Expand(n.Field, n.Fits), func(f Field) bool { return e[f.Name] != "" && isValue(t, f, e[f.Name], n.Value, now) })
	case Range:
		return slices.ContainsFunc(fields.Expand(n.Field, n.Fits), func(f Field) bool {
			return e[f.Name] != "" && inRange(t, f, e[f.Name], n.Op, n.Value, now)
		})
	}
	t.Fatalf("the model has no %T", n)
	return false
}

func isValue(t *testing.T, f Field, has string, value Value, now time.Time) bool {
	t.Helper()
	if f.Type == Keyword {
		return value.Pattern.Match(has)
	}
	return inRange(t, f, has, GreaterOrEqual, value, now) && inRange(t, f, has, LessOrEqual, value, now)
}

func inRange(t *testing.T, f Field, has string, op Op, value Value, now time.Time) bool {
	t.Helper()
	text := value.Pattern.Text()
	order := 0
	switch f.Type {
	case Keyword:
		order = strings.Compare(has, text)
	case Long:
		left, _ := strconv.ParseFloat(has, 64)
		right, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		order = int(max(-1, min(1, left-right)))
	case Date:
		left, err := time.Parse(InstantLayout, has)
		if err != nil {
			t.Fatal(err)
		}
		right, err := Instant(text, now, op.End())
		if err != nil {
			t.Fatal(err)
		}
		order = left.Compare(right)
	}
	return order < 0 && strings.HasPrefix(string(op), "<") || order > 0 && strings.HasPrefix(string(op), ">") || order == 0 && strings.HasSuffix(string(op), "=")
}

var modelFields = Fields{Known: []Field{
	{Name: "@timestamp", Type: Date},
	{Name: "event.ingested", Type: Date},
	{Name: "event.action", Type: Keyword},
	{Name: "watership.queue", Type: Keyword},
	{Name: "watership.attempt", Type: Long},
}}

// model makes random queries about random events.
type model struct {
	*rand.Rand
	used []string // the dates of the query
}

func (m *model) pick(list ...string) string { return list[m.IntN(len(list))] }

func (m *model) date() string {
	anchor := m.pick("now", "now", "2026-03-29", "2026-03-29T02:30", "2026-10-25", "2026-10", "2026-10-25T02", "2026-03-29T00:00Z", "2026-10-25T02:30+02:00", "1790000000000")
	math := ""
	for range m.IntN(3) {
		math += m.pick("/d", "-1d", "+1M", "/M", "-36h", "+90m", "/h", "/w", "-1y")
	}
	if math != "" && anchor != "now" {
		anchor += "||"
	}
	m.used = append(m.used, anchor+math)
	return anchor + math
}

func (m *model) query(depth int) Node {
	if depth > 0 && m.IntN(2) == 0 {
		switch m.IntN(3) {
		case 0:
			return And{m.query(depth - 1), m.query(depth - 1)}
		case 1:
			return Or{m.query(depth - 1), m.query(depth - 1), m.query(depth - 1)}
		default:
			return Not{m.query(depth - 1)}
		}
	}
	value := func(text string) Value { return Value{Pattern: Pattern{text}, Quoted: true} }
	op := Op(m.pick("<", "<=", ">", ">="))
	switch m.IntN(6) {
	case 0:
		return Is{Field: Pattern{m.pick("event.action", "watership.queue")}, Value: value(m.pick("a", "b", "c"))}
	case 1:
		return Range{Field: Pattern{"watership.attempt"}, Op: op, Value: value(m.pick("1", "2", "3"))}
	case 2:
		return Exists{Field: Pattern{m.pick("event.ingested", "watership.queue", "event.action")}}
	case 3:
		return Is{Field: m.dates(), Value: value(m.date())}
	default:
		return Range{Field: m.dates(), Op: op, Value: value(m.date())}
	}
}

func (m *model) dates() Pattern {
	return [...]Pattern{{"@timestamp"}, {"event.ingested"}, {"event.in", ""}, {"@", ""}}[m.IntN(4)]
}

// event returns an event whose times are often at an end of a span in a query.
func (m *model) event(t *testing.T, now time.Time) event {
	t.Helper()
	at := func() string {
		end, err := Instant(m.used[m.IntN(len(m.used))], now, End(m.IntN(2)))
		if err != nil {
			t.Fatal(err)
		}
		return end.Add(time.Duration(m.IntN(3)-1) * time.Millisecond).UTC().Format(InstantLayout)
	}
	e := event{"@timestamp": at(), "event.action": m.pick("a", "b"), "watership.queue": m.pick("", "a", "b", "c"), "watership.attempt": m.pick("", "1", "2", "3")}
	if m.IntN(3) > 0 {
		e["event.ingested"] = at()
	}
	return e
}

// A query selects the same events after its dates are replaced by instants as it
// selects if its dates are read in the zone, whatever the zone of the store is.
func TestInZoneKeepsTheMeaning(t *testing.T) {
	for seed, name := range []string{"UTC", "Europe/Berlin", "Asia/Kathmandu", "America/Havana", "Australia/Lord_Howe"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		m := &model{Rand: rand.New(rand.NewPCG(51, uint64(seed)))}
		checkMeaning(t, m, func(query Node, now time.Time) (Node, time.Time) {
			return InZone(query, modelFields, now), now.UTC()
		}, zone)
	}
}

// A query with `now` replaced selects the same events at any later time.
func TestAbsoluteTimesKeepTheMeaning(t *testing.T) {
	m := &model{Rand: rand.New(rand.NewPCG(52, 0))}
	checkMeaning(t, m, func(query Node, now time.Time) (Node, time.Time) {
		return AbsoluteTimes(query, modelFields, now), now.Add(time.Duration(1+m.IntN(1e6)) * time.Hour)
	}, time.UTC)
}

// Both, in the order in which a command applies them.
func TestInZoneOfAbsoluteTimesKeepsTheMeaning(t *testing.T) {
	m := &model{Rand: rand.New(rand.NewPCG(53, 0))}
	checkMeaning(t, m, func(query Node, now time.Time) (Node, time.Time) {
		return AbsoluteTimes(InZone(query, modelFields, now), modelFields, now), now.Add(1000 * time.Hour).UTC()
	}, time.FixedZone("", 5*3600+1800))
}

// Printing a query and parsing it again keeps its meaning, also with the parentheses
// that only the tree has.
func TestPrintingKeepsTheMeaning(t *testing.T) {
	m := &model{Rand: rand.New(rand.NewPCG(54, 0))}
	checkMeaning(t, m, func(query Node, now time.Time) (Node, time.Time) {
		parsed, err := Parse(query.String())
		if err != nil {
			t.Fatal(err)
		}
		resolved, err := Resolve(parsed, modelFields)
		if err != nil {
			t.Fatal(err)
		}
		return resolved, now
	}, time.UTC)
}

func checkMeaning(t *testing.T, m *model, change func(query Node, now time.Time) (Node, time.Time), zone *time.Location) {
	t.Helper()
	selected, all := 0, 0
	for range 1500 {
		now := time.Date(2026, time.Month(3+7*m.IntN(2)), 24+m.IntN(7), m.IntN(24), m.IntN(60), m.IntN(60), m.IntN(1e9), zone)
		m.used = []string{"now"}
		query := m.query(3)
		before := query.String()
		changed, later := change(query, now)
		if query.String() != before {
			t.Fatalf("the query itself changed from %s to %s", before, query)
		}
		for range 8 {
			e := m.event(t, now)
			want := selects(t, query, e, modelFields, now)
			if got := selects(t, changed, e, modelFields, later); got != want {
				t.Fatalf("at %s, %s selects %v: %v, but it became %s: %v", now, query, e, want, changed, got)
			}
			if all++; want {
				selected++
			}
		}
	}
	if selected < all/10 || selected > all*9/10 {
		t.Errorf("the queries select %d of %d events, which shows little", selected, all)
	}
}

// Many values of one keyword field become one list; the lists and the rest select what
// the query selected.
func TestTogetherKeepsTheMeaning(t *testing.T) {
	m := &model{Rand: rand.New(rand.NewPCG(55, 0))}
	for range 300 {
		var query Or
		counts := map[string]int{"event.action": m.IntN(2 * fewValues), "watership.queue": m.IntN(2 * fewValues)}
		for field, count := range counts {
			for range count {
				query = append(query, Is{Field: Pattern{field}, Value: Value{Pattern: Pattern{fmt.Sprint(m.IntN(1000))}, Quoted: m.IntN(2) == 0}})
			}
		}
		query = append(query, Is{Field: Pattern{"event.action"}, Value: Value{Pattern: Pattern{"9", ""}}}, Range{Field: Pattern{"watership.attempt"}, Op: Greater, Value: Value{Pattern: Pattern{"2"}}})
		m.Shuffle(len(query), func(i, j int) { query[i], query[j] = query[j], query[i] })
		lists, others := modelFields.Together(query)
		kept := len(others)
		for _, list := range lists {
			if len(list.Values) <= fewValues || len(list.Values) != counts[list.Field.Name] {
				t.Fatalf("a list of %d values of %s, which has %d", len(list.Values), list.Field.Name, counts[list.Field.Name])
			}
			kept += len(list.Values)
		}
		if kept != len(query) {
			t.Fatalf("of %d conditions %d are left", len(query), kept)
		}
		for range 50 {
			e := event{"event.action": fmt.Sprint(m.IntN(1000)), "watership.queue": fmt.Sprint(m.IntN(1000)), "watership.attempt": m.pick("1", "2", "3")}
			inList := slices.ContainsFunc(lists, func(list OneOf) bool { return slices.Contains(list.Values, e[list.Field.Name]) })
			if got, want := inList || selects(t, others, e, modelFields, time.Time{}), selects(t, query, e, modelFields, time.Time{}); got != want {
				t.Fatalf("%v is selected: %v, in lists and others: %v", e, want, got)
			}
		}
	}
}

// Rewrite gives each leaf once, and the tree that it returns shares no list with the
// one that it was given.
func TestRewriteCopies(t *testing.T) {
	m := &model{Rand: rand.New(rand.NewPCG(56, 0))}
	for range 500 {
		query := m.query(4)
		leaves := 0
		same := Rewrite(query, func(leaf Node) Node {
			switch leaf.(type) {
			case And, Or, Not:
				t.Fatalf("%s is no leaf", leaf)
			}
			leaves++
			return leaf
		})
		if !Equal(same, query) {
			t.Fatalf("%s became %s", query, same)
		}
		before := query.String()
		for _, list := range [][]Node{nodesOf(same)} {
			for i := range list {
				list[i] = All{}
			}
		}
		if query.String() != before || leaves == 0 {
			t.Fatalf("%s is now %s, with %d leaves", before, query, leaves)
		}
	}
}

func nodesOf(n Node) []Node {
	switch n := n.(type) {
	case And:
		return n
	case Or:
		return n
	}
	return nil
}

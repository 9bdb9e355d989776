package storetest

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Aggregations is a store with aggregations and summaries of events. See the methods of
// *elastic.Store.
type Aggregations interface {
	Store
	TopValues(ctx context.Context, sel eventstore.Selection, field string, n int) (eventstore.Aggregation, error)
	Present(ctx context.Context, sel eventstore.Selection, of eventstore.FieldIn) (map[string]bool, error)
	Histogram(ctx context.Context, sel eventstore.Selection, field string, n int, zone *time.Location) (eventstore.Aggregation, error)
	HistogramByAction(ctx context.Context, sel eventstore.Selection, over eventstore.Steps, actions []schemas.Action) ([][]int64, error)
	FirstTime(ctx context.Context, sel eventstore.Selection) (time.Time, error)
	Percentiles(ctx context.Context, sel eventstore.Selection, by string, n int, fields ...string) (eventstore.PercentilesBy, error)
	Summaries(ctx context.Context, sel eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error]
}

// RunAggregations runs the suite of aggregations and summaries. open returns an empty
// store that is ready for documents, and is cleaned up with the test.
func RunAggregations(t *testing.T, open func(t *testing.T) Aggregations) {
	t.Run("the most frequent values", func(t *testing.T) { testTopValues(t, createTwelveEvents(t, open(t))) })
	t.Run("values that are present", func(t *testing.T) { testPresent(t, createTwelveEvents(t, open(t))) })
	t.Run("odd bodies", func(t *testing.T) { testOddBodies(t, open(t)) })
	t.Run("encoded bodies", func(t *testing.T) { testEncodedBodies(t, open(t)) })
	t.Run("over time", func(t *testing.T) { testHistogram(t, createTwelveEvents(t, open(t))) })
	t.Run("over time by action", func(t *testing.T) { testHistogramByAction(t, open(t)) })
	t.Run("percentiles", func(t *testing.T) { testPercentiles(t, open(t)) })
	t.Run("before 1970", func(t *testing.T) { testHistogramBefore1970(t, open(t)) })
	t.Run("values of numeric labels", func(t *testing.T) { testNumericLabels(t, open(t)) })
	t.Run("aggregations with a context that is done", func(t *testing.T) { testAggregationsContextDone(t, open(t)) })
	t.Run("summaries", func(t *testing.T) { testSummaries(t, open(t)) })
	t.Run("filtered summaries", func(t *testing.T) { testFilteredSummaries(t, createTwelveEvents(t, open(t))) })
}

// createTwelveEvents creates twelve events: a queue for every second and third of them, and an
// hour between them.
func createTwelveEvents(t *testing.T, store Aggregations) Aggregations {
	t.Helper()
	s := subject{store, t.Name()}
	var events []schemas.Event
	for n := range 12 {
		e := s.event(n)
		e.EventID = fmt.Sprint("event-", n)
		e.Time = time.Date(2026, 5, 4, n, 30, 0, 0, time.UTC)
		e.Attempt = n%2 + 1
		e.Envelope.Headers = amqp.Table{"tenant": fmt.Sprint("t", n%4), "both": []any{"a", "b"}[:1+n%2], "rank": []string{"x", "y"}[min(n%4, 1)]}
		e.Envelope.Properties.MessageID = fmt.Sprint("m-", n/2)
		e.Envelope.Body = fmt.Appendf(nil, `{"price":%d.50,"lines":[{"sku":"s"},{"sku":"s"},{"sku":"s-%d"}]}`, n%2, n%3)
		switch {
		case n%2 == 0:
			e.Queue = "even"
		case n%3 == 0:
			e.Queue = "third"
		}
		events = append(events, e)
	}
	s.createVisible(t, events...)
	return store
}

func value(text string, count int64) eventstore.Bucket {
	return eventstore.Bucket{Text: text, Count: count}
}

func testTopValues(t *testing.T, s Aggregations) {
	all, first6 := eventstore.Selection{}, eventstore.Selection{UpTo: 5}
	for _, test := range []struct {
		field string
		sel   eventstore.Selection
		n     int
		want  eventstore.Aggregation
	}{
		{"watership.queue", all, 10, eventstore.Aggregation{Values: []eventstore.Bucket{value("even", 6), value("third", 2)}, Without: 4}},
		{"watership.queue", all, 1, eventstore.Aggregation{Values: []eventstore.Bucket{value("even", 6)}, Others: 2, Without: 4}},
		{"watership.queue", first6, 10, eventstore.Aggregation{Values: []eventstore.Bucket{value("even", 3), value("third", 1)}, Without: 2}},
		{"watership.attempt", all, 10, eventstore.Aggregation{Values: []eventstore.Bucket{value("1", 6), value("2", 6)}}},
		{"headers.tenant", first6, 2, eventstore.Aggregation{Values: []eventstore.Bucket{value("t0", 2), value("t1", 2)}, Others: 2}},
		{"headers.both", all, 10, eventstore.Aggregation{Values: []eventstore.Bucket{value("a", 12), value("b", 6)}}},
		{"headers.rank", all, 10, eventstore.Aggregation{Values: []eventstore.Bucket{value("y", 9), value("x", 3)}}},
		{"headers", all, 1, eventstore.Aggregation{Values: []eventstore.Bucket{value("a", 12)}, Others: 30}},
		{"headers.nobody", all, 2, eventstore.Aggregation{Without: 12}},
		{"body.json.price", all, 2, eventstore.Aggregation{Values: []eventstore.Bucket{value("0.50", 6), value("1.50", 6)}}},
		{"body.json.lines.sku", all, 2, eventstore.Aggregation{Values: []eventstore.Bucket{value("s", 12), value("s-0", 4)}, Others: 8}},
		{"body.json", first6, 1, eventstore.Aggregation{Values: []eventstore.Bucket{value("s", 6)}, Others: 12}},
		{"messaging.message.id", first6, 3, eventstore.Aggregation{Values: []eventstore.Bucket{value("m-0", 2), value("m-1", 2), value("m-2", 2)}}},
		{"event.id", first6, 1, eventstore.Aggregation{Values: []eventstore.Bucket{value("event-0", 1)}, Others: 5}},
	} {
		got, err := s.TopValues(t.Context(), test.sel, test.field, test.n)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s, %d (-want +got):\n%s", test.field, test.n, diff)
		}
	}
	if _, err := s.TopValues(t.Context(), all, "error.message", 3); err == nil {
		t.Error("the values of a text were counted")
	}
}

func testPresent(t *testing.T, s Aggregations) {
	queues := []string{"third", "even", "nobody's", "even"}
	for _, test := range []struct {
		sel   eventstore.Selection
		among []string
		want  map[string]bool
	}{
		{eventstore.Selection{}, queues, map[string]bool{"even": true, "third": true}},
		{eventstore.Selection{UpTo: 1}, queues, map[string]bool{"even": true}},
		{eventstore.Selection{Query: kql.FieldIs("headers.tenant", "t1"), Limit: 1}, queues, map[string]bool{"third": true}},
		{eventstore.Selection{Query: kql.FieldIs("event.id", "nobody")}, queues, map[string]bool{}},
		{eventstore.Selection{}, nil, map[string]bool{}},
	} {
		got, err := s.Present(t.Context(), test.sel, eventstore.FieldIn{Field: "watership.queue", Values: test.among})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%+v of %q (-want +got):\n%s", test.sel, test.among, diff)
		}
	}
}

func testHistogram(t *testing.T, s Aggregations) {
	got, err := s.Histogram(t.Context(), eventstore.Selection{}, "@timestamp", 6, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	want := eventstore.Aggregation{Values: []eventstore.Bucket{
		value("2026-05-04T00:00:00.000Z", 3), value("2026-05-04T03:00:00.000Z", 3),
		value("2026-05-04T06:00:00.000Z", 3), value("2026-05-04T09:00:00.000Z", 3),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want.Values = []eventstore.Bucket{
		value("2026-05-03T23:00:00.000Z", 2), value("2026-05-04T02:00:00.000Z", 3), value("2026-05-04T05:00:00.000Z", 3),
		value("2026-05-04T08:00:00.000Z", 3), value("2026-05-04T11:00:00.000Z", 1),
	}
	got, err = s.Histogram(t.Context(), eventstore.Selection{}, "@timestamp", 6, time.FixedZone("Lima", -5*60*60))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("where midnight is at 05:00 (-want +got):\n%s (%v)", diff, err)
	}
	even := eventstore.Selection{Query: is("watership.queue", "third")}
	got, err = s.Histogram(t.Context(), even, "@timestamp", 10, time.UTC)
	if err != nil || len(got.Values) != 7 || got.Values[0].Count != 1 || got.Values[1].Count != 0 {
		t.Errorf("two with hours between them: %v, %v", got, err)
	}
	if got, err := s.Histogram(t.Context(), eventstore.Selection{Query: is("event.id", "nobody")}, "@timestamp", 6, time.UTC); err != nil || len(got.Values) != 0 {
		t.Errorf("of nothing: %v, %v", got, err)
	}
}

func testHistogramByAction(t *testing.T, store Aggregations) {
	s := subject{store, t.Name()}
	events := s.events(1, 7)
	for i, e := range []struct {
		action schemas.Action
		hour   int // of the time, in the middle
	}{{schemas.Published, 0}, {schemas.Published, 4}, {schemas.Handled, 4}, {schemas.Poisoned, 5}, {schemas.Published, 11}, {schemas.Published, 12}, {schemas.Replayed, 5}} {
		events[i].Action, events[i].Time = e.action, time.Date(2026, 5, 4, e.hour, 30, 0, 0, time.UTC)
		events[i].Envelope.Headers = amqp.Table{"tenant": fmt.Sprint("t", i%2)}
	}
	s.createVisible(t, events...)
	first, err := store.FirstTime(t.Context(), eventstore.Selection{Query: is("event.action", "poisoned")})
	if want := time.Date(2026, 5, 4, 5, 30, 0, 0, time.UTC); err != nil || !first.Equal(want) {
		t.Errorf("the first poisoned: %s %v, want %s", first, err, want)
	}
	if first, err := store.FirstTime(t.Context(), eventstore.Selection{Query: is("event.id", "nobody")}); err != nil || !first.IsZero() {
		t.Errorf("the first of none: %s %v", first, err)
	}
	over := eventstore.Steps{Begin: time.Date(2026, 5, 4, 2, 0, 0, 0, time.UTC), Length: 2 * time.Hour, Count: 5}
	for name, test := range map[string]struct {
		query kql.Node
		want  [][]int64 // from 2, 4, 6, 8 and 10 to 12 o'clock
	}{
		"all":         {nil, [][]int64{{0, 1, 0, 0, 1}, {0, 1, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 1, 0, 0, 0}}},
		"of a header": {is("headers.tenant", "t0"), [][]int64{{0, 0, 0, 0, 1}, {0, 1, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}},
		"of nothing":  {is("event.id", "nobody"), [][]int64{{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}},
	} {
		got, err := store.HistogramByAction(t.Context(), eventstore.Selection{Query: test.query}, over, []schemas.Action{schemas.Published, schemas.Handled, schemas.RetryScheduled, schemas.Poisoned})
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s (-want +got):\n%s (%v)", name, diff, err)
		}
	}
}

func testHistogramBefore1970(t *testing.T, store Aggregations) {
	s := subject{store, t.Name()}
	events := s.events(1, 4)
	for i, hour := range []int{-25, -1, 0, 1} {
		events[i].Time = time.Unix(0, 0).UTC().Add(time.Duration(hour)*time.Hour + 30*time.Minute)
	}
	s.createVisible(t, events...)
	got, err := store.Histogram(t.Context(), eventstore.Selection{}, "@timestamp", 6, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	want := eventstore.Aggregation{Values: []eventstore.Bucket{
		value("1969-12-30T12:00:00.000Z", 1), value("1969-12-31T00:00:00.000Z", 0), value("1969-12-31T12:00:00.000Z", 1), value("1970-01-01T00:00:00.000Z", 2),
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := store.Histogram(t.Context(), eventstore.Selection{}, "event.action", 3, time.UTC); err == nil {
		t.Error("a histogram of keywords is no error")
	}
}

func testNumericLabels(t *testing.T, store Aggregations) {
	s := subject{store, t.Name()}
	totals := []float64{9.5, 10, 10, -0.25, 1e6}
	docs := make([]schemas.Document, len(totals))
	for i, total := range totals {
		event := s.event(i)
		event.Envelope.Headers = amqp.Table{"total": total}
		docs[i] = schemas.DocumentFormat{NumericLabels: []string{"total"}}.Document(event)
	}
	s.create(t, docs, allCreated(len(docs))...)
	s.refresh(t)
	got, err := store.TopValues(t.Context(), eventstore.Selection{}, "numeric_labels.total", 10)
	want := eventstore.Aggregation{Values: []eventstore.Bucket{value("10", 2), value("-0.25", 1), value("9.5", 1), value("1000000", 1)}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("(-want +got):\n%s (%v)", diff, err)
	}
}

func testAggregationsContextDone(t *testing.T, s Aggregations) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantCanceled(t, map[string]func() error{
		"TopValues": func() error { _, err := s.TopValues(ctx, eventstore.Selection{}, "event.action", 1); return err },
		"Histogram": func() error {
			_, err := s.Histogram(ctx, eventstore.Selection{}, "@timestamp", 1, time.UTC)
			return err
		},
		"HistogramByAction": func() error {
			_, err := s.HistogramByAction(ctx, eventstore.Selection{}, eventstore.NewSteps(time.Now(), time.Now(), 3, time.UTC), []schemas.Action{schemas.Handled})
			return err
		},
		"FirstTime": func() error { _, err := s.FirstTime(ctx, eventstore.Selection{}); return err },
		"Summaries": func() (last error) {
			for _, err := range s.Summaries(ctx, eventstore.Selection{}) {
				last = err
			}
			return last
		},
	})
}

func is(field, text string) kql.Node {
	return kql.Is{Field: kql.Pattern{field}, Value: kql.Value{Pattern: kql.Pattern{text}, Quoted: true}}
}

func testSummaries(t *testing.T, store Aggregations) {
	s := subject{store, t.Name()}
	e := s.event(1)
	e.Sequence = 1<<53 + 1 // not exact as a float64
	e.Action = schemas.Poisoned
	e.EventID, e.Time = "the event", time.Date(2026, 5, 4, 3, 2, 1, 123456000, time.UTC)
	e.Fingerprint, e.Message, e.Queue = "v1:ab", "instance", "orders"
	e.Envelope.Properties.MessageID = "order-7"
	e.Failure = schemas.Failure{Message: "no stock of 42", Type: "status", Class: "server"}
	e.Replay, e.ReplayOf = "job", "other"
	e.Stream = schemas.MessageStream{ID: "order-7", HasVersion: true}
	s.createVisible(t, e)
	want := eventstore.EventSummary{
		EventID: "the event", Sequence: e.Sequence, Time: e.Time.Truncate(time.Millisecond), Action: schemas.Poisoned,
		Fingerprint: "v1:ab", MessageID: "order-7", Message: "instance", Queue: "orders", Class: "server",
		ErrorType: "status", ErrorGroup: "no stock of #", Replay: "job", ReplayOf: "other",
		Stream: schemas.MessageStream{ID: "order-7", HasVersion: true},
	}
	for summary, err := range store.Summaries(t.Context(), eventstore.Selection{}) {
		if err != nil {
			t.Fatal(err)
		}
		summary.Time = summary.Time.Truncate(time.Millisecond) // the precision of the mapping
		if diff := cmp.Diff(want, summary); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(eventstore.Summarize(e), summary); diff != "" {
			t.Errorf("(-summary of the event +summary of the store):\n%s", diff)
		}
		return
	}
	t.Error("no summaries")
}

func testFilteredSummaries(t *testing.T, s Aggregations) {
	ids := func(ids ...string) eventstore.FieldIn { return eventstore.FieldIn{Field: "event.id", Values: ids} }
	for _, test := range []struct {
		sel    eventstore.Selection
		either []eventstore.FieldIn
		want   string
	}{
		{eventstore.Selection{Limit: 2}, nil, " 0 1"},
		{eventstore.Selection{}, []eventstore.FieldIn{ids("event-7", "event-3")}, " 3 7"},
		{eventstore.Selection{}, []eventstore.FieldIn{ids("event-7"), ids("event-9")}, " 7 9"},
		{eventstore.Selection{}, []eventstore.FieldIn{ids("event-7"), {Field: "watership.queue", Values: []string{"third"}}}, " 3 7 9"},
		{eventstore.Selection{UpTo: 8}, []eventstore.FieldIn{ids("event-7", "event-9")}, " 7"},
		{eventstore.Selection{Query: is("watership.queue", "third")}, []eventstore.FieldIn{ids("event-7", "event-9")}, " 9"},
		{eventstore.Selection{}, []eventstore.FieldIn{ids()}, ""},
		{eventstore.Selection{After: eventstore.Cursor{Sequence: 10, EventID: "zzz"}}, nil, " 11"},
	} {
		got := ""
		for summary, err := range s.Summaries(t.Context(), test.sel, test.either...) {
			if err != nil {
				t.Fatal(err)
			}
			got += fmt.Sprint(" ", summary.Sequence)
		}
		if got != test.want {
			t.Errorf("%+v, %v: got %q, want %q", test.sel, test.either, got, test.want)
		}
	}
}

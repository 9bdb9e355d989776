package elastic

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// counted has twelve events: a queue for every second and third of them, and an
// hour between them.
func counted(t *testing.T) *Store {
	t.Helper()
	s := installed(t, Config{})
	var docs []schemas.Document
	for n := range 12 {
		e := event(n)
		e.Time = time.Date(2026, 5, 4, n, 30, 0, 0, time.UTC)
		e.Attempt = n%2 + 1
		e.Envelope.Headers = amqp.Table{"tenant": fmt.Sprint("t", n%4)}
		switch {
		case n%2 == 0:
			e.Queue = "even"
		case n%3 == 0:
			e.Queue = "third"
		}
		docs = append(docs, schemas.DocumentFormat{}.Document(e))
	}
	create(t, s, docs...)
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTop(t *testing.T) {
	s := counted(t)
	first6 := schemas.Selection{UpTo: 5}
	for _, test := range []struct {
		field string
		sel   schemas.Selection
		n     int
		want  Tally
	}{
		{"watership.queue", schemas.Selection{}, 10, Tally{Values: []Value{{"even", 6}, {"third", 2}}, Without: 4}},
		{"watership.queue", schemas.Selection{}, 1, Tally{Values: []Value{{"even", 6}}, Others: 2, Without: 4}},
		{"watership.queue", first6, 10, Tally{Values: []Value{{"even", 3}, {"third", 1}}, Without: 2}},
		{"watership.attempt", schemas.Selection{}, 10, Tally{Values: []Value{{"1", 6}, {"2", 6}}}},
		{"headers.tenant", first6, 2, Tally{Values: []Value{{"t0", 2}, {"t1", 2}}, Others: 2}},
		{"headers.nobody", schemas.Selection{}, 2, Tally{Without: 12}},
	} {
		got, err := s.Top(t.Context(), test.sel, test.field, test.n)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s, %d (-want +got):\n%s", test.field, test.n, diff)
		}
	}
	if _, err := s.Top(t.Context(), schemas.Selection{}, "error.message", 3); err == nil {
		t.Error("the values of a text were counted")
	}
}

func TestOver(t *testing.T) {
	s := counted(t)
	got, err := s.Over(t.Context(), schemas.Selection{}, "@timestamp", 6)
	if err != nil {
		t.Fatal(err)
	}
	want := Tally{Values: []Value{{"2026-05-04T00:00:00.000Z", 3}, {"2026-05-04T03:00:00.000Z", 3}, {"2026-05-04T06:00:00.000Z", 3}, {"2026-05-04T09:00:00.000Z", 3}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	nobody := schemas.Selection{Query: query.Is{Field: query.Pattern{"event.id"}, Value: query.Value{Pattern: query.Pattern{"nobody"}, Quoted: true}}}
	if got, err := s.Over(t.Context(), nobody, "@timestamp", 6); err != nil || len(got.Values) != 0 {
		t.Errorf("of nothing: %v, %v", got, err)
	}
}

// The steps are never more than asked for, whatever the span.
func TestRoundStep(t *testing.T) {
	for span := time.Second; span < 20*365*24*time.Hour; span = span * 3 / 2 {
		step := roundStep(span, 24)
		if steps := span/step + 2; steps > 24 {
			t.Errorf("%s in steps of %s are %d", span, step, steps)
		}
	}
}

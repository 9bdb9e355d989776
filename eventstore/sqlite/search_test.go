package sqlite

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// TestNewest: a limit changes neither the events nor their order, whether they are
// frequent or not, and in whatever order they were written.
func TestNewest(t *testing.T) {
	t.Parallel()
	s := installed(t, Config{})
	r := rand.New(rand.NewPCG(7, 7))
	var docs []schemas.Document
	const events = 250
	for n := range events {
		e := event("", n+1)
		age := r.IntN(events / 2) // some at the same time
		e.Time = e.Time.Truncate(time.Hour).Add(-time.Duration(age) * time.Second)
		e.Sequence = int64(r.IntN(3)) + 1
		e.Envelope.Headers["again"] = e.Envelope.Headers["tenant"]
		e.Envelope.Headers["age"] = fmt.Sprint(age)
		if age > events/2-8 {
			e.Envelope.Headers["old"] = "yes"
		}
		docs = append(docs, schemas.DocumentFormat{}.Document(e))
	}
	create(t, s, docs...)
	for _, text := range []string{
		"", "headers.tenant: t3", "headers.old: yes", "headers.n: 7", "headers.age: (3 or 100)", "hello", "body.text: 77", "yes", "not headers.tenant: t3",
		"headers.tenant: t3 and body.text: hello and messaging.app_id: *", "headers.tenant: t3 and hello and headers.old: yes", "headers.n: nobody", "headers: t3",
		"headers.tenant: t3 and not (headers.old: yes or body.text: 77)", "body.text: h*o", "published and order.created",
	} {
		node, err := kql.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all := ids(t, s, eventstore.Selection{Query: node, WithoutBody: true})
		for _, limit := range []int{1, 2, 100} {
			want := all[:min(limit, len(all))]
			if got := ids(t, s, eventstore.Selection{Query: node, Limit: limit, WithoutBody: true}); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: the newest %d are %v, want %v", text, limit, got, want)
			}
		}
		if n, err := s.Count(t.Context(), eventstore.Selection{Query: node}); err != nil || int(n) != len(all) {
			t.Errorf("%s: counted %d, %v; there are %d", text, n, err, len(all))
		}
	}
}

// TestBothConditions: events that match one of two conditions are not found.
func TestBothConditions(t *testing.T) {
	s := installed(t, Config{})
	create(t, s, eventDocuments("", 1, 20)...)
	for text, want := range map[string]string{
		"headers.tenant: t3 and headers.n: 10":                                "[10]",
		"headers.tenant: t3 and headers.n: 11":                                "[]",
		"headers.tenant: t3 and hello":                                        "[3 10 17]",
		"headers.tenant: t3 and hello and body.text: (10 or 11) and number":   "[10]",
		"body.text: 10 and (headers.tenant: t3 or headers.tenant: t4)":        "[10]",
		"headers.tenant: t3 and body.text: hello and not messaging.app_id: *": "[3 10 17]",
	} {
		node, err := kql.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(sequences(t, s, node)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func ids(t *testing.T, s *Store, sel eventstore.Selection) []string {
	t.Helper()
	list := []string{}
	for e, err := range s.Events(t.Context(), sel) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e.EventID)
	}
	return list
}

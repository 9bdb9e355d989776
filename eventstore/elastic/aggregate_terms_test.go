package elastic

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// Fields without doc_values are counted in a few requests, however many events there are, with the
// same result as by the sources.
func TestFieldsWithoutDocValuesAreCountedByTheirIndex(t *testing.T) {
	var requests atomic.Int64
	s := throughProxy(t, func(w http.ResponseWriter, r *http.Request, real http.Handler) {
		requests.Add(1)
		real.ServeHTTP(w, r)
	})
	if err := s.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	var docs []schemas.Document
	for n := range maxPage + 600 {
		e := event(n + 1)
		e.Envelope.Properties.MessageID = fmt.Sprint("m-", n%40)
		e.Envelope.Headers = amqp.Table{
			"tenant": fmt.Sprint("t", n%7), "amount": float64(n%5) / 4, "ok": n%2 == 0, "customer": int64(n % 300),
			"list": []any{"a", fmt.Sprint("b", n%3), "a"}, "deep": amqp.Table{"zone": int64(n % 4)}, "n": int64(n),
		}
		if n%10 == 0 {
			delete(e.Envelope.Headers, "tenant")
		}
		docs = append(docs, schemas.DocumentFormat{}.Document(e))
	}
	for first := 0; first < len(docs); first += 1000 {
		create(t, s, docs[first:min(first+1000, len(docs))]...)
	}
	if err := s.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	most := kql.Range{Field: kql.Pattern{"event.sequence"}, Op: kql.Greater, Value: kql.Value{Pattern: kql.Pattern{"500"}}}
	for _, name := range []string{
		"headers.tenant", "headers.amount", "headers.ok", "headers.customer", "headers.list", "headers.deep.zone", "headers.deep", "headers.none",
		"messaging.message.id", "watership.fingerprint",
	} {
		for _, sel := range []eventstore.Selection{{}, {Query: most}} {
			field, _ := s.fields.Lookup(name)
			requests.Store(0)
			got, err := s.TopValues(t.Context(), sel, name, 20)
			if err != nil {
				t.Fatal(err)
			}
			asked := requests.Load()
			want, err := s.countInSources(t.Context(), sel, field, 20)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-by the sources +by the index):\n%s", name, diff)
			}
			if len(want.Values) > 0 && asked > 5 {
				t.Errorf("%s took %d requests", name, asked)
			}
		}
	}
}

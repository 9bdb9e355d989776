package messages

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// BenchmarkServiceMap measures the map of 500,000 events of a day, of 6 exchanges and 12 queues, in both stores.
// WATERSHIP_TEST_SQLITE_FILE names a file that it fills once and leaves for the next run.
func BenchmarkServiceMap(b *testing.B) {
	for name, open := range map[string]func(testing.TB) *system.System{
		"embedded": func(t testing.TB) *system.System {
			file := cmp.Or(os.Getenv("WATERSHIP_TEST_SQLITE_FILE"), filepath.Join(t.TempDir(), "store.db"))
			sys, _ := systemtest.Embedded(t, "WATERSHIP_STORE_URL=sqlite:"+file)
			return sys
		},
		"elasticsearch": inElasticsearch,
	} {
		b.Run(name, func(b *testing.B) {
			sys := open(b)
			fillTraffic(b, sys)
			for _, since := range []string{"1h", "25h", ""} {
				b.Run("since="+since, func(b *testing.B) { measureMap(b, sys, since) })
			}
		})
	}
}

func measureMap(b *testing.B, sys *system.System, since string) {
	ctx := access.NewContext(b.Context(), access.AsOperator("ann"))
	for b.Loop() {
		in := MapInput{QueryFilter: eventfilter.QueryFilter{Filter: eventfilter.Filter{Since: since}}, Limit: 100}
		found, err := serviceMaps{sys}.get(ctx, &in)
		must(b, err)
		if len(found.Body.Edges) != 30 {
			b.Fatalf("%d edges", len(found.Body.Edges))
		}
	}
}

// fillTraffic stores 500,000 events: each message of an exchange goes to two queues, and the handler of one publishes it
// to the next exchange. Some attempts fail.
func fillTraffic(b *testing.B, sys *system.System) {
	b.Helper()
	store, err := sys.Store(b.Context())
	must(b, err)
	const chains, exchanges = 26_000, 6
	if highest, err := store.HighestSequence(b.Context()); highest > 0 {
		must(b, err)
		return
	}
	begin := time.Now().Add(-24 * time.Hour)
	var documents []schemas.Document
	sequence := int64(0)
	for chain := range chains {
		for at := range exchanges {
			exchange, id, cause := fmt.Sprint("exchange-", at), fmt.Sprint("m-", chain, "-", at), ""
			if at > 0 {
				cause = fmt.Sprint("m-", chain, "-", at-1)
			}
			var tr traffic
			tr.publish(id, "service-of-"+exchange, exchange, cause)
			tr.attempt(schemas.Handled, id, exchange, "log-of-"+exchange, time.Duration(chain%1000)*time.Millisecond)
			if chain%5 == 0 {
				tr.attempt(schemas.RetryScheduled, id, exchange, "queue-of-"+exchange, time.Second)
			}
			tr.attempt(schemas.Handled, id, exchange, "queue-of-"+exchange, time.Duration(chain%997)*time.Millisecond)
			for i, e := range tr.events {
				sequence++
				e.Sequence, e.Source, e.VHost = sequence, sys.Settings().Source, sys.VHost()
				e.Time = begin.Add(time.Duration(chain) * 24 * time.Hour / chains).Add(time.Duration(10*at+i) * time.Millisecond)
				e.EventID, e.Fingerprint = fmt.Sprint("event-", sequence), e.Envelope.Fingerprint()
				e.Envelope.Body, e.BodySize = []byte(`{"order":42,"item":"violin","customer":"hazel"}`), 48
				documents = append(documents, sys.DocumentFormat().Document(e))
			}
		}
		if len(documents) > 4000 || chain == chains-1 {
			_, err := store.Create(b.Context(), documents)
			must(b, err)
			documents = documents[:0]
		}
	}
	must(b, store.Refresh(b.Context()))
}

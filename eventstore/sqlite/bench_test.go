package sqlite

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// million is the number of events that the benchmarks search.
const million = 1_000_000

// searches are queries and limits. Every seventh event has the same tenant, and each
// number is in one event.
var searches = []struct {
	name, query string
	limit       int
}{
	{"rare header", "headers.n: 777777", 20},
	{"common header", "headers.tenant: t3", 20},
	{"message id", "messaging.message.id: m-777777", 20},
	{"field of the body", "body.json.order: 777777", 20},
	{"rare word", "body.text: 777777", 20},
	{"common word", "body.text: hello", 20},
	{"rare value anywhere", "m-777777", 20},
	{"common word anywhere", "hello", 20},
	{"common value anywhere", "published", 20},
	{"a value of all", "event.action: published", 20},
	{"two conditions", "watership.source: test and headers.tenant: t3 and headers.n: 777777", 20},
	{"two common conditions", "event.action: published and headers.tenant: t3", 20},
	{"last hour", `@timestamp >= "2026-05-15T13:00:00Z" and headers.tenant: t3`, 20},
	{"not a common header", "not headers.tenant: t3", 20},
	{"beginning of a keyword", "messaging.message.id: m-77777*", 20},
}

func BenchmarkSearchMillion(b *testing.B) {
	s := millionEvents(b)
	for _, test := range searches {
		node, err := kql.Parse(test.query)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(test.name, func(b *testing.B) {
			for b.Loop() {
				for _, err := range s.Events(b.Context(), eventstore.Selection{Query: node, Limit: test.limit}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run(test.name+", counted", func(b *testing.B) {
			for b.Loop() {
				if _, err := s.Count(b.Context(), eventstore.Selection{Query: node}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// millionEvents takes minutes. WATERSHIP_TEST_SQLITE_FILE names a file that it creates
// once and leaves for the next run.
func millionEvents(b *testing.B) *Store {
	b.Helper()
	s := installed(b, Config{Path: os.Getenv("WATERSHIP_TEST_SQLITE_FILE")})
	highest, err := s.HighestSequence(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	const batch = 5000
	for n := int(highest); n < million; n += batch {
		docs := make([]schemas.Document, batch)
		for i := range docs {
			docs[i] = schemas.DocumentFormat{}.Document(mixedEvent(n + 1 + i))
		}
		create(b, s, docs...)
	}
	return s
}

// mixedEvent is event number n of a system: half of the events are `published`, one of 50
// is `retry_scheduled`, one of 100 `poisoned`, and the others `handled`, in ten queues.
func mixedEvent(n int) schemas.Event {
	e := event("", n)
	if n%2 == 0 {
		return e
	}
	e.Action, e.Queue, e.Attempt, e.Duration = schemas.Handled, fmt.Sprint("queue-", n/2%10), 1, time.Duration(n%1000)*time.Millisecond
	switch {
	case n%100 == 1:
		e.Action = schemas.Poisoned
	case n%50 == 3:
		e.Action = schemas.RetryScheduled
	}
	if e.Action != schemas.Handled {
		e.Failure = schemas.Failure{Message: "cannot connect", Type: "*net.OpError", Class: "unavailable"}
		e.Message = fmt.Sprint("instance-", n)
	}
	return e
}

func BenchmarkCreate(b *testing.B) {
	for _, batch := range []int{1, 100, 1000} {
		b.Run(fmt.Sprint("of ", batch), func(b *testing.B) {
			s := installed(b, Config{})
			n := 0
			for b.Loop() {
				create(b, s, eventDocuments("", n+1, n+batch)...)
				n += batch
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "documents/s")
		})
	}
}

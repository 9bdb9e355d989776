package sqlite

import (
	"fmt"
	"os"
	"testing"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
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
		create(b, s, eventDocuments("", n+1, n+batch)...)
	}
	return s
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

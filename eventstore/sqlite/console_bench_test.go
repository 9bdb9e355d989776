package sqlite

import (
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/history"
)

// BenchmarkConsoleMillion measures what the first page of a console asks for, about all of
// a million events and about the last day of them.
func BenchmarkConsoleMillion(b *testing.B) {
	s := millionEvents(b)
	for name, within := range map[string]string{"all": "*", "last day": `@timestamp >= "2026-05-14T13:46:40Z"`} {
		counts := func(query, field string) func(b *testing.B) {
			return func(b *testing.B) {
				sel := eventstore.Selection{Query: node(b, query)}
				for b.Loop() {
					if _, err := s.TopValues(b.Context(), sel, field, 20); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
		b.Run(name+", newest 20", func(b *testing.B) {
			for b.Loop() {
				for _, err := range s.Events(b.Context(), eventstore.Selection{Query: node(b, within), Limit: 20}) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run(name+", by action", counts(within, "event.action"))
		b.Run(name+", by queue", counts(within, "watership.queue"))
		b.Run(name+", poisoned by queue", counts(within+" and event.action: poisoned", "watership.queue"))
		b.Run(name+", by routing key", counts(within, "messaging.rabbitmq.destination.routing_key"))
		for _, action := range []string{"published", "handled", "retry_scheduled", "poisoned"} {
			b.Run(name+", "+action+" over time", func(b *testing.B) {
				sel := eventstore.Selection{Query: node(b, within+" and event.action: "+action)}
				for b.Loop() {
					if _, err := s.Histogram(b.Context(), sel, "@timestamp", 60, time.UTC); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(name+", open failures", func(b *testing.B) {
			for b.Loop() {
				failures, err := history.NewFailures(b.Context(), s, nil)
				if err != nil {
					b.Fatal(err)
				}
				for _, err := range failures.Open(b.Context(), node(b, within)) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

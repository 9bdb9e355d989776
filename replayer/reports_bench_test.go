package replayer

import (
	"fmt"
	"testing"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// BenchmarkReports reads the reports about messages in flight in a store with 20,000 events.
func BenchmarkReports(b *testing.B) {
	f := newFixtureOn(b, rabbittest.Newest(b))
	events := make([]schemas.Event, 20_000)
	sent := make([]history.SentMessage, len(events)/2)
	for i := range sent {
		events[2*i] = f.published(i)
		events[2*i+1] = f.event(schemas.Handled, f.message(i))
		events[2*i+1].State.Replay, events[2*i+1].State.ReplayOf = f.source, events[2*i].EventID
		sent[i] = history.SentMessage{EventID: events[2*i].EventID, Fingerprint: events[2*i].Fingerprint}
	}
	f.storeEvents(events...)
	for _, n := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprint(n, " messages"), func(b *testing.B) {
			reports := history.NewReports(f.store, history.Job{ID: f.source, ToOrigin: true, UpTo: f.sequence}, nil)
			for b.Loop() {
				read, err := reports.Read(b.Context(), sent[:n])
				if err != nil || len(read) != n {
					b.Fatal(len(read), err)
				}
			}
		})
	}
}

package indexer

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
)

// Three indexers whose clocks differ by hours are started and stopped at
// random while messages come in: every message is there once, the order in
// which they were published is the order of the sequence.
func TestSeveralIndexersKeepTheOrder(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		t.Parallel()
		s := newSystem(t, b)
		store := newStore(t)
		rounds, each := 6, 100
		if os.Getenv("WATERSHIP_TEST_SOAK") == "1" {
			rounds, each = 100, 1000
		}
		clocks := []time.Duration{-5 * time.Hour, 0, 3 * time.Hour}
		indexers := make([]*running, len(clocks))
		for round := range rounds {
			turn := rand.IntN(len(clocks))
			if indexers[turn] != nil {
				indexers[turn].stop()
				indexers[turn] = nil
			} else {
				indexers[turn] = s.start(store, func(cfg *Config) {
					cfg.Now = func() time.Time { return time.Now().Add(clocks[turn]) }
				})
			}
			for n := range each {
				s.publish(s.message("order", round*each+n))
			}
		}
		for n, x := range indexers {
			if x == nil {
				indexers[n] = s.start(store, nil)
			}
		}
		events := s.finish(store, rounds*each, indexers...)
		s.wantEachOnce(events)
		for n, event := range events {
			if want := s.message("order", n).Properties.MessageID; event.Envelope.Properties.MessageID != want {
				t.Fatalf("event %d is %s, want %s", n, event.Envelope.Properties.MessageID, want)
			}
		}
	})
}

package indexer

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// BenchmarkPartitions indexes a backlog from 1, 2 and 4 queues, by one process. The store answers at once, or
// as long after as WATERSHIP_BENCH_STORE says, so that what limits is before it.
func BenchmarkPartitions(b *testing.B) {
	count, err := strconv.Atoi(os.Getenv("WATERSHIP_BENCH_MESSAGES"))
	if err != nil {
		count = 20_000
	}
	wait, _ := time.ParseDuration(os.Getenv("WATERSHIP_BENCH_STORE"))
	for _, partitions := range []int{1, 2, 4} {
		b.Run(fmt.Sprint(partitions), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				s := newSystemOf(b, rabbittest.NewestServer(b), schemas.Topology{IndexPartitions: partitions})
				s.publish(s.keyed(200, count/200)...)
				store := &countingStore{Store: &answeringStore{wait: wait}, all: make(chan struct{})}
				store.left.Store(int64(count))
				cfg := s.config(store)
				cfg.Broker, cfg.Batch = rabbit.Consumer{Connection: s.open(s.URL, true)}, Batch{}
				x := New(cfg)
				ctx, stop := context.WithCancel(context.Background())
				ended := make(chan error, 1)
				b.StartTimer()
				go func() { ended <- x.Run(ctx) }()
				<-store.all
				b.StopTimer()
				stop()
				if err := <-ended; err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(count)*float64(b.N)/b.Elapsed().Seconds(), "msg/s")
		})
	}
}

// answeringStore answers some time later that it has stored everything, and keeps nothing but records.
type answeringStore struct {
	fakeStore
	wait time.Duration
}

func (s *answeringStore) Create(_ context.Context, documents []schemas.Document) ([]eventstore.Result, error) {
	time.Sleep(s.wait)
	results := make([]eventstore.Result, len(documents))
	for n := range results {
		results[n].Status = eventstore.Created
	}
	return results, nil
}

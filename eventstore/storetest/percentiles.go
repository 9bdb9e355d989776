package storetest

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
)

// testPercentiles compares the percentiles of times that lie far apart with the sorted times.
func testPercentiles(t *testing.T, store Aggregations) {
	s, random := subject{store, t.Name()}, rand.New(rand.NewPCG(5, 99))
	events := s.events(1, 700)
	times := map[string][]int64{}
	for i := range events {
		e := &events[i]
		switch {
		case i%7 == 0:
			e.Queue = "rare"
		case i%7 < 6:
			e.Queue = "orders"
		}
		took := int64(1) << random.IntN(45) * (100 + random.Int64N(100))
		if e.Queue == "orders" && i%3 > 0 {
			e.QueueTime = time.Duration(took)
			times[e.Queue] = append(times[e.Queue], took)
		}
		e.Duration = time.Duration(i)
	}
	s.createVisible(t, events...)
	found, err := store.Percentiles(t.Context(), eventstore.Selection{}, "watership.queue", 10, "watership.queue_time", "event.duration")
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Values) != 2 || found.Values[0].Text != "orders" || found.Values[0].Count != 500 || found.Values[1].Text != "rare" || found.Values[1].Count != 100 || found.Others != 0 {
		t.Fatalf("by queue: %+v", found)
	}
	if none := found.Values[1].Fields[0]; none != (eventstore.Percentiles{}) {
		t.Errorf("a queue without times has %+v", none)
	}
	if known := found.Values[1].Fields[1]; known.Count != 99 || known.Max != 693 { // the first has none
		t.Errorf("attempts of the other queue: %+v", known)
	}
	sorted, got := slices.Sorted(slices.Values(times["orders"])), found.Values[0].Fields[0]
	if got.Count != int64(len(sorted)) {
		t.Errorf("%d times, want %d", got.Count, len(sorted))
	}
	for percent, value := range map[int]int64{50: got.P50, 95: got.P95, 99: got.P99, 100: got.Max} {
		near := func(rank int) bool {
			diff := value - sorted[rank-1]
			return max(diff, -diff) <= sorted[rank-1]/100
		}
		nearest, above := (len(sorted)*percent+50)/100, (len(sorted)*percent+99)/100
		if !near(nearest) && !near(above) { // OpenSearch rounds the rank up
			t.Errorf("percentile %d: %d, of the sorted times %d", percent, value, sorted[nearest-1])
		}
	}
	few, err := store.Percentiles(t.Context(), eventstore.Selection{Query: is("watership.queue", "rare"), UpTo: events[349].Sequence}, "watership.queue", 1, "event.duration")
	if err != nil || len(few.Values) != 1 || few.Values[0].Count != 50 {
		t.Errorf("of a query: %+v, %v", few, err)
	}
	one, err := store.Percentiles(t.Context(), eventstore.Selection{}, "watership.queue", 1, "event.duration")
	if err != nil || len(one.Values) != 1 || one.Others != 100 {
		t.Errorf("of one queue: %+v, %v", one, err)
	}
}

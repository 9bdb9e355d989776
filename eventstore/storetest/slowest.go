package storetest

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// testSlowestFirst reads in the orders of times of work, whole and page by page, with equal times and
// events without one.
func testSlowestFirst(t *testing.T, s subject) {
	random := rand.New(rand.NewPCG(1, 2))
	events := s.events(1, 60)
	for i := range events {
		e := &events[i]
		e.QueueTime, e.Duration, e.TotalTime = time.Duration(random.IntN(5)), time.Duration(random.IntN(20))*time.Hour, time.Duration(random.IntN(1000))
	}
	s.createVisible(t, events...)
	for order, took := range map[eventstore.Order]func(schemas.Event) time.Duration{
		eventstore.SlowestInQueue:   func(e schemas.Event) time.Duration { return e.QueueTime },
		eventstore.SlowestInHandler: func(e schemas.Event) time.Duration { return e.Duration },
		eventstore.SlowestInTotal:   func(e schemas.Event) time.Duration { return e.TotalTime },
	} {
		known := slices.DeleteFunc(slices.Clone(events), func(e schemas.Event) bool { return took(e) == 0 })
		slices.SortFunc(known, func(a, b schemas.Event) int {
			return cmp.Or(cmp.Compare(took(b), took(a)), cmp.Compare(b.Sequence, a.Sequence))
		})
		var want, whole, paged []string
		for _, e := range known {
			want = append(want, e.EventID)
		}
		for e, err := range s.Events(t.Context(), eventstore.Selection{Order: order}) {
			if err != nil {
				t.Fatal(err)
			}
			whole = append(whole, e.EventID)
		}
		for sel := (eventstore.Selection{Order: order, Limit: 7}); ; {
			n := 0
			for e, err := range s.Events(t.Context(), sel) {
				if err != nil {
					t.Fatal(err)
				}
				paged, sel.After = append(paged, e.EventID), eventstore.CursorAt(e)
				n++
			}
			if n < sel.Limit {
				break
			}
		}
		if !slices.Equal(whole, want) || !slices.Equal(paged, want) {
			t.Errorf("by %s: %v, in pages %v, want %v", order.Time(), whole, paged, want)
		}
	}
}

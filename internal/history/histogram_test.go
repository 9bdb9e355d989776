package history

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A histogram of any times has at most 32 steps, each with the failures of its time, and no
// shorter steps would do.
func TestHistogram(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 7))
		var h Histogram
		var times []time.Time
		spread := int64(1) << random.IntN(36)
		for range 1 + random.IntN(60) {
			at := time.Unix(random.Int64N(spread)-spread/3, random.Int64N(1e9))
			times = append(times, at)
			h.add(at, 1)
		}
		if len(h.Counts) == 0 || len(h.Counts) > maxSteps || h.Begin.Unix()%h.Step != 0 {
			t.Fatalf("seed %d: %d steps of %ds from %s", seed, len(h.Counts), h.Step, h.Begin)
		}
		if h.Counts[0] == 0 || h.Counts[len(h.Counts)-1] == 0 {
			t.Errorf("seed %d: empty ends: %v", seed, h.Counts)
		}
		for i, n := range h.Counts {
			begin, end := h.at(i), h.at(i+1)
			want := 0
			for _, at := range times {
				if !at.Before(begin) && at.Before(end) {
					want++
				}
			}
			if n != want {
				t.Errorf("seed %d: step %d has %d, want %d", seed, i, n, want)
			}
		}
		first, last := slices.MinFunc(times, time.Time.Compare), slices.MaxFunc(times, time.Time.Compare)
		if half := (Histogram{Step: max(1, h.Step/2)}); h.Step > 1 && half.index(last)-half.index(first) < maxSteps {
			t.Errorf("seed %d: steps of %ds, where %ds would do", seed, h.Step, half.Step)
		}
	}
}

// Histograms that are aligned have the same axis, and lose nothing.
func TestAlign(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 9))
		all := make([]Histogram, 1+random.IntN(5))
		for i := range all {
			begin, spread := random.Int64N(1<<random.IntN(30)), int64(1)<<random.IntN(24)
			for range 1 + random.IntN(20) {
				all[i].add(time.Unix(begin+random.Int64N(spread), 0), 1)
			}
		}
		for i, aligned := range Align(append(all, Histogram{}))[:len(all)] {
			if !aligned.Begin.Equal(Align(all)[0].Begin) || aligned.Step < all[i].Step || len(aligned.Counts) > maxSteps {
				t.Fatalf("seed %d: %+v of %+v", seed, aligned, all[i])
			}
			got, want := 0, 0
			for _, n := range aligned.Counts {
				got += n
			}
			for _, n := range all[i].Counts {
				want += n
			}
			if got != want || aligned.Begin.After(all[i].Begin) || aligned.End().Before(all[i].End()) {
				t.Errorf("seed %d: %d in %+v, want %d in %+v", seed, got, aligned, want, all[i])
			}
		}
	}
}

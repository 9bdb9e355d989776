package transport

import "testing"

func TestPrefetchFollowsTheSizeOfMessages(t *testing.T) {
	tuner := newPrefetchTuner(64<<20, 256)
	if tuner.prefetch != 4 {
		t.Errorf("it begins with %d", tuner.prefetch)
	}
	observe := func(times, size int) (changes int) {
		for range times {
			if tuner.observe(size) {
				changes++
			}
		}
		return changes
	}
	for _, test := range []struct {
		what                      string
		times, size, least, most  int
		leastChanges, mostChanges int
	}{
		{"small ones", 1000, 3000, 256, 256, 3, 3},
		{"a large one", 1, 16 << 20, 4, 4, 1, 1},
		{"more of them", 1000, 16 << 20, 4, 4, 0, 0},
		{"one beyond the bound", 1, 100 << 20, 1, 1, 1, 1},
		{"few small ones", 15, 3000, 1, 1, 0, 0},
		{"small ones again", 1000, 3000, 256, 256, 3, 6},
		{"now and then a large one", 1, 1 << 20, 64, 64, 1, 1},
	} {
		changes := observe(test.times, test.size)
		if tuner.prefetch < test.least || tuner.prefetch > test.most || changes < test.leastChanges || changes > test.mostChanges {
			t.Errorf("%s: prefetch %d after %d changes", test.what, tuner.prefetch, changes)
		}
	}
	for _, tuner := range []*prefetchTuner{newPrefetchTuner(0, 100), newPrefetchTuner(1<<40, 100)} {
		if tuner.prefetch != 100 {
			t.Errorf("it begins with %d", tuner.prefetch)
		}
	}
}

package simulation

import (
	"slices"
	"testing"
)

// In the runtime of make sim, a seed gives one run: the same calls, warnings and frames at the same
// moments.
func TestASeedGivesOneRun(t *testing.T) {
	runs, same := number(t, "RUNS", 0), 1
	if runs == 0 {
		t.Skip("make sim RUNS=n SEED=m compares n runs of a seed; another runtime decides about the order of what happens at once")
	}
	first := runSeed(t, NewPlan(number(t, "SEED", 1)))
	for range runs - 1 {
		next := runSeed(t, NewPlan(number(t, "SEED", 1)))
		if next.Trace == first.Trace {
			same++
			continue
		}
		for i := range first.Timeline {
			if i >= len(next.Timeline) || first.Timeline[i] != next.Timeline[i] {
				from := max(0, i-3)
				t.Errorf("the runs differ from line %d of %d:\n%q\n%q", i, len(first.Timeline),
					slices.Clip(first.Timeline[from:min(i+3, len(first.Timeline))]), slices.Clip(next.Timeline[from:min(i+3, len(next.Timeline))]))
				break
			}
		}
	}
	t.Logf("%d of %d runs of %d messages are the same", same, runs, first.Messages)
	if same != int(runs) {
		t.Fail()
	}
}

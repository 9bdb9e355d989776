package simulation

import (
	"slices"
	"testing"
)

// A seed is to give one run, with the same calls, confirms and warnings at the same moments. The test
// counts how often it does.
func TestASeedGivesOneRun(t *testing.T) {
	runs, same := number(t, "RUNS", 0), 0
	if runs == 0 {
		t.Skip("RUNS=n compares n runs of SEED: faults, and the processors of the machine, still change the order of what happens at once")
	}
	plan := NewPlan(number(t, "SEED", 1))
	first := Run(t, plan)
	for range runs - 1 {
		next := Run(t, plan)
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
	t.Logf("%d of %d runs are the same", same+1, runs)
}

package gctuning

import (
	"runtime/debug"
	"testing"
)

func TestApply(t *testing.T) {
	for name, test := range map[string]struct {
		gogc, gomemlimit string
		percent          int
		limit            int64
	}{
		"neither variable": {"", "", 400, 512<<20 + 2*1000},
		"GOGC":             {"50", "", 77, 512<<20 + 2*1000},
		"GOMEMLIMIT":       {"", "1GiB", 400, 1 << 40},
		"both variables":   {"50", "1GiB", 77, 1 << 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOGC", test.gogc)
			t.Setenv("GOMEMLIMIT", test.gomemlimit)
			percent, limit := debug.SetGCPercent(77), debug.SetMemoryLimit(1<<40)
			t.Cleanup(func() { debug.SetGCPercent(percent); debug.SetMemoryLimit(limit) })
			Apply(1000)
			if got := debug.SetGCPercent(77); got != test.percent {
				t.Errorf("the percentage is %d, want %d", got, test.percent)
			}
			if got := debug.SetMemoryLimit(-1); got != test.limit {
				t.Errorf("the limit is %d, want %d", got, test.limit)
			}
		})
	}
}

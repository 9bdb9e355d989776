package gctuning

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestApply(t *testing.T) {
	for name, test := range map[string]struct {
		gogc, gomemlimit string
		percent          int
		limit            int64
	}{
		"neither variable": {"", "", 400, 1000},
		"GOGC":             {"50", "", 77, 1000},
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

func TestTheLimitFollowsLiveMemory(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct{ least, live, want int64 }{
		{96 * mib, 0, 96 * mib}, {96 * mib, 50 * mib, 96 * mib}, {96 * mib, 64 * mib, 112 * mib}, {96*mib + 1, 400 * mib, 616 * mib},
	} {
		if got := limitFor(test.least, test.live); got != test.want {
			t.Errorf("%d MiB live: the limit is %d MiB, want %d", test.live/mib, got/mib, test.want/mib)
		}
	}
}

func TestFollowRaisesAndLowersTheLimit(t *testing.T) {
	percent, limit := debug.SetGCPercent(100), debug.SetMemoryLimit(1<<40)
	t.Cleanup(func() { debug.SetGCPercent(percent); debug.SetMemoryLimit(limit) })
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	const least = 48 << 20
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Follow(ctx, least)
	}()
	defer func() { cancel(); <-ended }()
	await := func(what string, done func(limit int64) bool) {
		for deadline := time.Now().Add(time.Minute); !done(debug.SetMemoryLimit(-1)); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: it is %d", what, debug.SetMemoryLimit(-1))
			}
		}
	}
	await("the limit at first", func(limit int64) bool { return limit == least })
	live := make([]byte, 200<<20)
	runtime.GC()
	await("the limit with 200 MiB in use", func(limit int64) bool { return limit >= 300<<20 })
	runtime.KeepAlive(live)
	runtime.GC()
	await("the limit afterwards", func(limit int64) bool { return limit == least })
}

package pace

import (
	"testing"
	"testing/synctest"
	"time"
)

// waits returns how long after the first message each message is due, if the caller needs busy
// for each.
func waits(t *testing.T, p *Pacer, busy time.Duration, times ...time.Duration) (due []time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began, first := time.Now(), time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
		for _, at := range times {
			time.Sleep(p.Delay(first.Add(at)))
			due = append(due, time.Since(began))
			time.Sleep(busy)
		}
	})
	return due
}

func TestDelay(t *testing.T) {
	const s = time.Second
	for name, test := range map[string]struct {
		p           Pacer
		busy        time.Duration
		times, want []time.Duration
	}{
		"as before":           {Pacer{Factor: 1}, 0, []time.Duration{0, 3 * s, 3 * s, 10 * s}, []time.Duration{0, 3 * s, 3 * s, 10 * s}},
		"twice as fast":       {Pacer{Factor: 2}, 0, []time.Duration{0, 3 * s, 10 * s}, []time.Duration{0, 1500 * time.Millisecond, 5 * s}},
		"half as fast":        {Pacer{Factor: 0.5}, 0, []time.Duration{0, 3 * s}, []time.Duration{0, 6 * s}},
		"a long gap":          {Pacer{Factor: 1, MaxGap: 2 * s}, 0, []time.Duration{0, 1 * s, 3600 * s, 3601 * s}, []time.Duration{0, 1 * s, 3 * s, 4 * s}},
		"back in time":        {Pacer{Factor: 1}, 0, []time.Duration{0, 5 * s, 1 * s, 2 * s}, []time.Duration{0, 5 * s, 5 * s, 6 * s}},
		"not at all":          {Pacer{}, 0, []time.Duration{0, 5 * s}, []time.Duration{0, 0}},
		"a small delay":       {Pacer{Factor: 1}, s / 2, []time.Duration{0, s, s, 2 * s, 3 * s}, []time.Duration{0, s, s + s/2, 2 * s, 3 * s}},
		"no burst after long": {Pacer{Factor: 1}, 5 * s, []time.Duration{0, s, 2 * s, 3 * s}, []time.Duration{0, 5 * s, 10 * s, 15 * s}},
	} {
		t.Run(name, func(t *testing.T) {
			got := waits(t, &test.p, test.busy, test.times...)
			for i, want := range test.want {
				if got[i] != want {
					t.Errorf("message %d is due after %s, want %s", i+1, got[i], want)
				}
			}
		})
	}
}

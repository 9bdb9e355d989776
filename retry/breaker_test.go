package retry

import (
	"strings"
	"testing"
	"time"
)

func TestBreakerValidate(t *testing.T) {
	for name, test := range map[string]struct {
		breaker Breaker
		want    string // in the error; "" for none
	}{
		"zero":              {Breaker{}, ""},
		"never":             {Breaker{Messages: -1, MaxWaits: -1, MaxWait: -1, MaxAlike: -1}, ""},
		"long first":        {Breaker{First: time.Hour}, ""},
		"too many messages": {Breaker{Messages: 1001}, "messages 1001: expected at most 1000"},
		"negative time":     {Breaker{Within: -time.Second}, "within -1s: expected a duration"},
		"cap below first":   {Breaker{First: time.Minute, Cap: time.Second}, "cap 1s: expected at least first, 1m0s"},
		"cap below default": {Breaker{Cap: time.Millisecond}, "cap 1ms: expected at least first, 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.breaker.Validate()
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestBreakerBounds(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for name, test := range map[string]struct {
		breaker          Breaker
		waits            int
		since            time.Time
		exhausted, alike bool
	}{
		"new":            {Breaker{}, 0, time.Time{}, false, false},
		"a few waits":    {Breaker{}, 19, now.Add(-time.Hour), false, false},
		"alike":          {Breaker{}, 20, now.Add(-time.Hour), false, true},
		"too often":      {Breaker{}, 1000, now, true, true},
		"too long":       {Breaker{}, 1, now.Add(-24 * time.Hour), true, true},
		"no waits":       {Breaker{MaxWaits: -1}, 0, time.Time{}, true, true},
		"no time":        {Breaker{MaxWait: -1}, 0, time.Time{}, true, true},
		"none alike":     {Breaker{MaxAlike: -1}, 0, time.Time{}, false, true},
		"of the clock":   {Breaker{}, 1, now.Add(time.Hour), false, false},
		"other settings": {Breaker{MaxWaits: 3, MaxWait: time.Minute, MaxAlike: 2}, 2, now, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.breaker.Exhausted(test.waits, test.since, now); got != test.exhausted {
				t.Errorf("exhausted: %t", got)
			}
			if got := test.breaker.ExhaustedAlike(test.waits, test.since, now); got != test.alike {
				t.Errorf("exhausted by failures alike: %t", got)
			}
		})
	}
}

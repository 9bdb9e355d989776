package pipeline

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// What the default policy and breaker make of messages that are all there at the
// beginning, in the time that it takes.
func TestDefaultsInAnOutage(t *testing.T) {
	refused := retry.Unavailable(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
	long := 100 * 24 * time.Hour
	for name, test := range map[string]struct {
		messages    int
		bad         int // of them, the first
		concurrency int
		outage      time.Duration
		err         error // in the outage

		goodWithin, badWithin time.Duration
	}{
		"200 messages, refused for 60 s":  {messages: 200, concurrency: defaultConcurrency, outage: time.Minute, err: refused, goodWithin: 90 * time.Second},
		"200 messages, 500 for 60 s":      {messages: 200, concurrency: defaultConcurrency, outage: time.Minute, err: &webhook.StatusError{Status: 500}, goodWithin: 90 * time.Second},
		"3 times 404 in front of 20 good": {messages: 23, bad: 3, concurrency: 1, goodWithin: 23 * 50 * time.Millisecond, badWithin: time.Minute},
		"20 times 404 for ever":           {messages: 20, bad: 20, concurrency: defaultConcurrency, badWithin: time.Hour},
		"20 times refused for ever":       {messages: 20, bad: 20, concurrency: defaultConcurrency, outage: long, err: refused, badWithin: 26 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newFloodModel(t, 1, test.messages)
				m.concurrency, m.policy = test.concurrency, retry.Default()
				start := time.Now()
				m.outages = []modelOutage{{from: start, to: start.Add(test.outage), err: test.err}}
				for i := range test.bad {
					m.bad[fmt.Sprint("m", i)] = true
				}
				m.play(func(i int) time.Duration { return time.Duration(i) }) // in this order
				for body, end := range m.ends {
					late := end.state.Time.Sub(start)
					switch {
					case !m.bad[body] && (end.action != schemas.Handled || end.state.Attempt != 1 || late > test.goodWithin):
						t.Errorf("the good %s is %s at attempt %d after %s", body, end.action, end.state.Attempt, late)
					case m.bad[body] && (end.action != schemas.Poisoned || end.state.Attempt != m.policy.MaxAttempts() || late > test.badWithin):
						t.Errorf("the bad %s is %s at attempt %d after %s", body, end.action, end.state.Attempt, late)
					}
				}
			})
		})
	}
}

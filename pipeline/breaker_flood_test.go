package pipeline

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// A publisher sends 20 messages a second for 40 seconds that the service answers with 404,
// in addition to 2 a second that succeed. The route is not paused: each good message is
// handled at once and each bad one is poison after the attempts of its policy.
func TestFloodOfBadMessagesPausesNoRoute(t *testing.T) {
	const good, bad = 2 * 100, 20 * 40 // for 100 s and for 40 s
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			m := newFloodModel(t, seed, good+bad)
			arrivals := make([]time.Time, m.messages)
			start := time.Now()
			for i := range arrivals {
				lasts := 100 * time.Second
				if i >= good {
					m.bad[fmt.Sprint("m", i)] = true
					lasts = 40 * time.Second
				}
				arrivals[i] = start.Add(time.Second + time.Duration(m.random.Int64N(int64(lasts))))
			}
			arrivals[0] = start
			m.play(func(i int) time.Duration { return arrivals[i].Sub(start) })
			if len(m.paused) > 0 {
				t.Errorf("seed %d: the route was paused %d times", seed, len(m.paused))
			}
			for i, at := range arrivals {
				end := m.ends[fmt.Sprint("m", i)]
				switch late := end.state.Time.Sub(at); {
				case i < good && (end.action != schemas.Handled || end.state.Attempt != 1 || late > 2*time.Second):
					t.Errorf("seed %d: a good message is %s at attempt %d, after %s", seed, end.action, end.state.Attempt, late)
				case i >= good && (end.action != schemas.Poisoned || end.state.Attempt != 4):
					t.Errorf("seed %d: a bad message is %s at attempt %d, after %s", seed, end.action, end.state.Attempt, late)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

// A bad deployment answers everything with 404 from some moment on, for ten minutes. The
// route pauses within seconds, and no message loses an attempt for it, except for the few
// that failed first.
func TestOutageThatAnswersPausesTheRoute(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			const healthy, rate = 30 * time.Second, 20
			m := newFloodModel(t, seed, rate*60)
			from := time.Now().Add(healthy)
			m.outages = []modelOutage{{from: from, to: from.Add(10 * time.Minute), err: &webhook.StatusError{Status: 404}}}
			m.play(func(i int) time.Duration { return time.Duration(i) * time.Second / rate })
			if len(m.paused) == 0 || m.paused[0].Before(from) || m.paused[0].After(from.Add(11*time.Second)) {
				t.Errorf("seed %d: paused at %v, the outage begins at %s", seed, m.paused, from)
			}
			for body, end := range m.ends {
				if end.action != schemas.Handled || end.state.Attempt > 2 {
					t.Errorf("seed %d: %s is %s at attempt %d", seed, body, end.action, end.state.Attempt)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}

func newFloodModel(t *testing.T, seed uint64, messages int) *outageModel {
	return &outageModel{
		t: t, random: rand.New(rand.NewPCG(seed, 5)), concurrency: defaultConcurrency, messages: messages,
		bad: map[string]bool{}, ends: map[string]modelEnd{}, queue: newModelQueue(),
		policy:  retry.Policy{Delays: []time.Duration{time.Second, 10 * time.Second, 30 * time.Second}},
		breaker: retry.Breaker{}.WithDefaults(),
	}
}

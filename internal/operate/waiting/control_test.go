package waiting

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

func eachKind(t *testing.T, test func(t *testing.T, b rabbittest.Broker, kind pipeline.QueueType)) {
	t.Parallel() // most of it is waiting
	rabbittest.EachKind(t, func(t *testing.T, b rabbittest.Broker) {
		for _, kind := range []pipeline.QueueType{pipeline.Quorum, pipeline.Classic} {
			t.Run(string(kind), func(t *testing.T) {
				t.Parallel()
				test(t, b, kind)
			})
		}
	})
}

// An operator decides about some of the messages that wait an hour. The others go on
// waiting.
func TestDecide(t *testing.T) {
	eachKind(t, func(t *testing.T, b rabbittest.Broker, kind pipeline.QueueType) {
		r := newRig(t, b, kind, time.Hour)
		ids := r.publish("m", 40)
		r.waitLen(wire.DelaysOf(r.topology).Queue(time.Hour), len(ids))
		now, cancelled, postponed, left := ids[:10], ids[10:20], ids[20:30], ids[30:]
		var notBefore time.Time
		for _, step := range []struct {
			do  Action
			ids []string
		}{{Now, now}, {Cancel, cancelled}, {Postpone, postponed}} {
			d := Decision{Action: step.do}
			if step.do == Postpone {
				notBefore = time.Now().Add(2500 * time.Millisecond)
				d.NotBefore = notBefore
			}
			if result := r.decide(d, step.ids); len(result.Taken) != 10 || len(result.Gone) != 0 || len(result.Events) != 10 {
				t.Fatalf("%s: taken %d, gone %d, events %d", step.do, len(result.Taken), len(result.Gone), len(result.Events))
			}
		}
		r.until("all are decided", func() bool {
			return len(r.events[schemas.Handled]) == 20 && len(r.events[schemas.Discarded]) == 10
		})
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, id := range slices.Concat(now, postponed) {
			if e := r.rescheduled[id]; r.retried[id] != 1 || e.Audit.User != "alice" || e.Audit.Reason != "a test" || e.Failure.Message != errBroken.Error() {
				t.Errorf("%s was retried %d times, after %+v", id, r.retried[id], e)
			}
		}
		for _, id := range postponed {
			if early := notBefore.Sub(r.due[id]); early > 0 {
				t.Errorf("%s came back %s early", id, early)
			}
		}
		for _, id := range cancelled {
			if e := r.last[id]; r.retried[id] != 0 || e.Failure.Message != "a test (alice)" || e.Queue != r.queue {
				t.Errorf("%s was retried %d times, after %+v", id, r.retried[id], e)
			}
		}
		r.waitLen(wire.DelaysOf(r.topology).Queue(time.Hour), len(left))
		for _, d := range r.broker.Take(t, wire.DelaysOf(r.topology).Queue(time.Hour), len(left)) {
			if !slices.Contains(left, d.MessageId) {
				t.Errorf("%s waits still", d.MessageId)
			}
		}
	})
}

// A delay until an hour of the day has no queue of its own: the messages wait in one standard
// queue after another, and an operator reaches them there.
func TestDecideUntilAnHour(t *testing.T) {
	t.Parallel()
	at := time.Now().UTC().Add(7 * time.Hour).Format("15:04")
	r := newRigWith(t, rabbittest.Embedded(t), pipeline.Quorum, retry.Policy{At: []string{at}})
	ids := r.publish("m", 6)
	for waiting, deadline := 0, time.Now().Add(rabbittest.Timeout); waiting < len(ids); time.Sleep(20 * time.Millisecond) {
		waiting = 0
		for _, delay := range retry.StandardDelays() {
			q, err := r.broker.Channel(t).QueueDeclarePassive(wire.DelaysOf(r.topology).Queue(delay), true, false, false, false, nil)
			if err == nil { // others do not exist
				waiting += q.Messages
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d messages wait, want %d", waiting, len(ids))
		}
	}
	if result := r.decide(Decision{Action: Cancel}, ids[:3]); len(result.Taken) != 3 {
		t.Errorf("cancelled %d, gone %d", len(result.Taken), len(result.Gone))
	}
	if result := r.decide(Decision{Action: Now}, ids[3:]); len(result.Taken) != 3 {
		t.Errorf("now %d, gone %d", len(result.Taken), len(result.Gone))
	}
	r.until("all are decided", func() bool {
		return len(r.events[schemas.Handled]) == 3 && len(r.events[schemas.Discarded]) == 3
	})
}

// A delay whose queue cannot be declared has another one in its place: an operator reaches its messages there.
func TestDecideInAnotherQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t, rabbittest.Embedded(t), pipeline.Quorum, time.Hour)
	r.control.Delays = []time.Duration{time.Hour}
	if _, err := r.admin.QueueDeclare(wire.DelaysOf(r.topology).Queue(500*time.Second), true, false, false, false, nil); err != nil { // not as it is to be
		t.Fatal(err)
	}
	ids := r.publish("later", 6)
	r.waitLen(wire.DelaysOf(r.topology).Queue(time.Hour), len(ids))
	if result := r.decide(Decision{Action: Cancel}, ids[:3]); len(result.Taken) != 3 || len(result.Gone) != 0 {
		t.Errorf("cancelled %d, gone %d", len(result.Taken), len(result.Gone))
	}
	r.until("three are cancelled", func() bool { return len(r.events[schemas.Discarded]) == 3 })
	r.waitLen(wire.DelaysOf(r.topology).Queue(time.Hour), 3)
}

// Messages become due while an operator decides about them. Each is retried once, or
// cancelled, and none of them both.
func TestDecideWhileMessagesBecomeDue(t *testing.T) {
	eachKind(t, func(t *testing.T, b rabbittest.Broker, kind pipeline.QueueType) {
		const delay = 300 * time.Millisecond
		r := newRig(t, b, kind, delay)
		gone, taken := 0, 0
		for round := range 6 {
			ids := r.publish(fmt.Sprintf("round%d", round), 60)
			d := Decision{Action: []Action{Now, Cancel, Postpone}[round%3]}
			first := r.messages(ids)[0]
			time.Sleep(time.Until(first.Due.Add(-time.Duration(round) * 25 * time.Millisecond))) // in the middle of the others, or before
			if d.Action == Postpone {
				d.NotBefore = time.Now().Add(500 * time.Millisecond)
			}
			result := r.decide(d, ids)
			gone, taken = gone+len(result.Gone), taken+len(result.Taken)
			r.until("all are handled or cancelled", func() bool {
				return !slices.ContainsFunc(ids, func(id string) bool {
					return r.events[schemas.Handled][id]+r.events[schemas.Discarded][id] == 0
				})
			})
			r.wantOnce(ids, result, d.Action == Cancel)
		}
		t.Logf("%d were taken, %d had become due", taken, gone)
		r.wantEmpty(delay)
	})
}

// wantOnce checks that each message was retried once or cancelled, as the result says.
func (r *rig) wantOnce(ids []string, result Result, cancels bool) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	decided := map[string]bool{}
	for _, m := range result.Taken {
		decided[m.MessageID] = true
	}
	for _, id := range ids {
		cancelled := cancels && decided[id]
		retries, discards := 1, 0
		if cancelled {
			retries, discards = 0, 1
		}
		if r.retried[id] != retries || r.events[schemas.Discarded][id] != discards {
			r.t.Errorf("%s, taken %t: retried %d times, cancelled %d times", id, decided[id], r.retried[id], r.events[schemas.Discarded][id])
		}
	}
}

// wantEmpty checks that no copy of a message is left.
func (r *rig) wantEmpty(delay time.Duration) {
	r.t.Helper()
	for _, queue := range []string{r.queue, r.topology.Due(), r.topology.Poison(), wire.DelaysOf(r.topology).Queue(delay)} {
		r.waitLen(queue, 0)
	}
}

// While the store is away, messages about which an operator has decided wait, and others go on.
func TestDecisionsWithoutTheStore(t *testing.T) {
	t.Parallel()
	r := newRig(t, rabbittest.Embedded(t), pipeline.Quorum, time.Hour)
	decided := r.publish("m", 5)
	r.away.Store(true)
	if taken := r.decide(Decision{Action: Cancel}, decided).Taken; len(taken) != len(decided) {
		t.Fatalf("%d of %d were taken", len(taken), len(decided))
	}
	others := r.publish("soon", 5)
	r.until("the others are handled", func() bool { return len(r.events[schemas.Handled]) == len(others) })
	r.mu.Lock()
	if n := len(r.events[schemas.Discarded]); n > 0 {
		t.Errorf("%d messages are cancelled by a decision that cannot be read", n)
	}
	r.mu.Unlock()
	r.away.Store(false)
	r.until("all are decided", func() bool { return len(r.events[schemas.Discarded]) == len(decided) })
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range decided {
		if r.retried[id] != 0 || r.events[schemas.Discarded][id] != 1 {
			t.Errorf("%s: retried %d times, cancelled %d times", id, r.retried[id], r.events[schemas.Discarded][id])
		}
	}
}

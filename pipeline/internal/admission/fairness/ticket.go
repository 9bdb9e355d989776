package fairness

import (
	"slices"
	"time"

	"github.com/watershipmq/watership/pipeline/internal/admission/breaker"
	"github.com/watershipmq/watership/schemas"
)

// Ticket is one delivery of a message, from its arrival to its acknowledgement.
type Ticket struct {
	gate      *Gate
	key       *key // nil: none
	id        string
	position  int64
	settled   bool // the message has an outcome
	away      bool // and returns from a delay queue
	exhausted bool
	waited    bool // in the process
	probe     bool // of its key, whose breaker is open
	stage     stage
	epoch     int       // of the key's breaker
	since     time.Time // of the wait in the process
	began     time.Time
	turn      chan outcome // has room for one
}

// stage is the progress of a ticket. One that is ready or running has a handler of its
// key's part.
type stage int

const (
	arrived stage = iota
	waiting       // in the process, for its key
	ready         // waiting for a handler
	running
	gone // refused, or left
)

// outcome is the result of Begin: a turn if both are zero.
type outcome struct {
	wait Wait
	err  error
}

// Position returns the place of the message in the order of its key.
func (t *Ticket) Position() int64 { return t.position }

// Place returns the place of the message, which is in the process. ok is whether it has one that
// the next process should know.
func (t *Ticket) Place() (p Place, ok bool) {
	if t.key == nil || !t.gate.cfg.Ordered {
		return Place{}, false
	}
	return Place{Key: t.key.name, ID: t.id, Position: t.position}, true
}

// enter asks for a turn.
func (t *Ticket) enter() {
	if t.key == nil {
		t.makeReady()
		t.gate.grant()
		return
	}
	t.since = t.gate.now()
	t.setStage(waiting)
	t.key.advance()
	t.gate.grant()
}

// setStage keeps the number of tickets that wait for each key.
func (t *Ticket) setStage(next stage) {
	waits := t.gate.crowded
	if t.stage == waiting {
		if waits[t.key]--; waits[t.key] == 0 {
			delete(waits, t.key)
		}
	}
	if t.stage = next; next == waiting {
		waits[t.key]++
	}
}

func (t *Ticket) makeReady() {
	t.setStage(ready)
	t.gate.ready = append(t.gate.ready, t)
}

func (t *Ticket) begin() {
	t.setStage(running)
	t.began = t.gate.now()
	if t.key != nil {
		t.epoch = t.key.begin()
	}
	t.turn <- outcome{}
}

// giveUp makes a ticket that waits for its key wait in a delay queue instead.
func (t *Ticket) giveUp() {
	if t.stage == waiting {
		t.refuse(outcome{wait: t.key.wait(t)})
	}
}

// refuse ends the wait of a ticket that has no handler.
func (t *Ticket) refuse(o outcome) {
	t.release()
	t.turn <- o
}

// Leave is called once the message is acknowledged, or requeued.
func (t *Ticket) Leave() {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	t.release()
	if !t.settled {
		t.gate.keepPlace(t)
	}
	if t.key != nil {
		t.key.remove(t)
		t.key.advance()
	}
	t.gate.grant()
}

// release returns all that the ticket occupies.
func (t *Ticket) release() {
	g := t.gate
	if t.stage != gone {
		g.present--
	}
	switch t.stage {
	case ready:
		g.ready = slices.DeleteFunc(g.ready, func(other *Ticket) bool { return other == t })
	case running:
		g.running--
	}
	if t.key != nil && (t.stage == ready || t.stage == running) {
		t.key.release(t)
	}
	t.setStage(gone)
}

// Settle is called before Leave if the message has an outcome, so that it is acknowledged.
// It reports whether the message does not return.
func (t *Ticket) Settle() (done bool) {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	t.settled = true
	return !t.away
}

// Succeeded records that the attempt succeeded.
func (t *Ticket) Succeeded() {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	if t.key != nil {
		t.key.succeeded(t)
	}
}

// Failed records that the attempt failed, and decides whether it counts, as the breaker of a
// route does. before is the state of the message before the attempt, with an instance id.
// news is whether the key had handled its messages until then: only such a failure may be a
// sign of an outage of all keys.
func (t *Ticket) Failed(before schemas.State, f breaker.Failure) (effect breaker.Effect, news bool) {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	if t.key == nil {
		return breaker.AttemptCounts, true
	}
	return t.key.failed(t, before, f)
}

// Key returns the name of the key; "" if the message has none.
func (t *Ticket) Key() string {
	if t.key == nil {
		return ""
	}
	return t.key.name
}

// Outage returns the time at which the breaker of the key opened, and the failure of its
// messages; zero while the breaker is closed.
func (t *Ticket) Outage() (since time.Time, why schemas.Failure) {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	if t.key == nil || t.key.breaker == nil {
		return time.Time{}, schemas.Failure{}
	}
	return t.key.breaker.Outage()
}

// Refund reports whether the latest attempt of the message is refunded, as
// breaker.Breaker.Refund does.
func (t *Ticket) Refund(s schemas.State) bool {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	return t.key != nil && t.key.breaker != nil && t.key.breaker.Refund(s)
}

// Waited reports whether the message had to wait for its turn, in the process or in a delay
// queue. It is called after Begin.
func (t *Ticket) Waited() bool {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	return t.waited
}

// Away is called before Leave if the message goes to a delay queue, and returns after a
// delay. If ordered, it calls keep with the places of the message and of all earlier ones of
// its key in the process: the next process would handle those too late if it knew only the
// places of later ones. keep is called with the lock of the Gate.
func (t *Ticket) Away(delay time.Duration, keep func([]Place)) {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.key == nil || !g.cfg.Ordered {
		return
	}
	t.away = true
	due := g.now().Add(delay)
	t.key.addAway(t.position, due)
	var places []Place
	for _, other := range t.key.tickets {
		if other.position < t.position && !other.settled {
			places = append(places, Place{Key: t.key.name, ID: other.id, Position: other.position})
		}
	}
	keep(append(places, Place{Key: t.key.name, ID: t.id, Position: t.position, Due: due}))
}

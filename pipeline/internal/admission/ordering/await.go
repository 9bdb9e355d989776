package ordering

import (
	"context"
	"time"
)

// Outcome is the end of a wait.
type Outcome int

const (
	Alone   Outcome = iota // nothing to wait for, or for too long: the policy decides
	Go                     // the messages before it are handled: another attempt may succeed
	Later                  // it has to wait elsewhere, for Pause
	Stopped                // the route stops, or is paused before an attempt
)

// Pause is how long a message waits in a delay queue that waits for longer than the process
// holds it.
const Pause = 10 * time.Second

// Await waits until the earlier messages of the key are handled. first is the time of the first
// failure of the message, and paused is closed when the route is paused. stands is called once the
// message has waited for long, with the time at which its wait in the process ends.
func (t *Ticket) Await(ctx context.Context, first time.Time, paused <-chan struct{}, stands func(until time.Time)) Outcome {
	if t == nil || t.key == "" {
		return Alone
	}
	l := t.line
	t.failEarly()
	w := wait{Ticket: t, stands: stands, first: first, began: l.now(), entered: l.now(), end: first.Add(l.cfg.Within), memory: l.now().Add(memoryWait)}
	switch blocked, _, _ := w.blocked(ctx); {
	case !l.now().Before(w.end):
		return Alone
	case !blocked && t.handled() > t.seen: // during the attempt
		return Go
	case !blocked:
		t.leaveAlone()
		return Alone
	}
	l.mu.Lock()
	if l.waiting >= l.cfg.Room {
		l.mu.Unlock()
		return Later
	}
	l.waiting++
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.waiting--
	}()
	return w.run(ctx, paused)
}

// wait is one call of Await.
type wait struct {
	*Ticket
	stands      func(until time.Time)
	first       time.Time // failure of the message
	began       time.Time // or of the latest change
	entered     time.Time
	told        bool // that it has waited for long
	end, memory time.Time
	asked       time.Time // when Open was called
	open        bool      // its latest result
}

func (w *wait) run(ctx context.Context, paused <-chan struct{}) Outcome {
	l := w.line
	for {
		blocked, changed, again := w.blocked(ctx)
		now := l.now()
		switch {
		case !blocked:
			return Go
		case !now.Before(w.end):
			return Alone
		case !now.Before(w.memory):
			return Later
		}
		w.tell(now)
		timer := time.NewTimer(min(again, w.end.Sub(now), w.memory.Sub(now)))
		select {
		case <-changed: // the store will know it in a moment
			w.began, w.asked = l.now(), time.Time{}
		case <-timer.C:
		case <-paused: // its attempt counts as an outcome, or it would look like a crash
			timer.Stop()
			return Later
		case <-l.closed:
			timer.Stop()
			return Stopped
		case <-ctx.Done():
			timer.Stop()
			return Stopped
		}
		timer.Stop()
	}
}

// tell calls stands once the message has waited for long.
func (w *wait) tell(now time.Time) {
	if w.told || now.Sub(w.entered) < standsAfter {
		return
	}
	w.told = true
	if until := w.memory; w.end.After(until) {
		w.stands(until)
	} else {
		w.stands(w.end)
	}
}

// blocked reports whether a message is in the way, with a channel that is closed when one of the
// key has been handled, and the time after which to look again.
func (w *wait) blocked(ctx context.Context) (blocked bool, changed <-chan struct{}, again time.Duration) {
	blocked, unsure, passed, changed := w.earlier()
	now := w.line.now()
	again = openEvery
	if w.line.cfg.Open == nil || blocked && !unsure || !blocked && passed {
		return blocked, changed, again
	}
	if now.Sub(w.asked) >= min(max(openEvery, now.Sub(w.began)/10), openAtMost) {
		open, err := w.line.cfg.Open(ctx, Waiting{w.key, w.fingerprint, w.sequence, w.first})
		if w.asked = now; err == nil {
			w.open = open
		} else {
			w.open = w.open || blocked // the store is unavailable: as it was
		}
	}
	return w.open, changed, again
}

// earlier reports whether the process knows an earlier message that is not handled. unsure is
// whether all of them are elsewhere, and their failures long enough ago to be in the store.
//
// Messages may arrive in another order than their key has, such as those that were requeued. Then
// one that arrived earlier may wait for this one. So once another message of the key was handled, this
// one passes those that wait elsewhere and alone, and those that have failed early since.
func (t *Ticket) earlier() (known, unsure, passed bool, changed <-chan struct{}) {
	l := t.line
	l.mu.Lock()
	defer l.mu.Unlock()
	k, own := t.message()
	if own == nil {
		return false, true, false, nil
	}
	unsure = true
	for fingerprint, other := range k.messages {
		if fingerprint == t.fingerprint || other.place > own.place && !(other.failed && own.place > 0) {
			continue
		}
		if other.inside == 0 && !other.until.After(l.now()) {
			delete(k.messages, fingerprint)
			continue
		}
		if (other.alone || other.early > k.handled) && k.handled > t.seen {
			passed = true
			continue
		}
		known = true
		if other.inside > 0 || l.now().Sub(other.changed) < openAfter {
			unsure = false
		}
	}
	return known, unsure, passed, k.changed
}

// Key returns the key of the message; "": it has none.
func (t *Ticket) Key() string {
	if t == nil {
		return ""
	}
	return t.key
}

// Earlier returns the publisher's id of the first message of the key, as the process knows it, that is
// earlier than this one; "" if none has one.
func (t *Ticket) Earlier() (id string) {
	t.line.mu.Lock()
	defer t.line.mu.Unlock()
	k, own := t.message()
	if own == nil {
		return ""
	}
	first := own
	for _, other := range k.messages {
		if other.place < first.place {
			first = other
		}
	}
	if first == own {
		return ""
	}
	return first.id
}

// leaveAlone records that the message waits elsewhere for one that it does not find here.
func (t *Ticket) leaveAlone() {
	t.line.mu.Lock()
	defer t.line.mu.Unlock()
	if k, m := t.message(); m != nil {
		m.alone = true
		k.announce()
	}
}

// failEarly records that the attempt of the message failed since an earlier one is not handled.
func (t *Ticket) failEarly() {
	t.line.mu.Lock()
	defer t.line.mu.Unlock()
	if k, m := t.message(); m != nil && m.early <= t.seen {
		if m.early = t.seen + 1; t.seen > 0 { // or no other one may pass it
			k.announce()
		}
	}
}

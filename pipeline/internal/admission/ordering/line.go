// Package ordering knows the messages of a route by their key, so that a message that fails
// since an earlier one is not handled yet can wait for that, and go as soon as it is.
package ordering

import (
	"context"
	"maps"
	"math"
	"sync"
	"time"
)

// Config configures a Line.
type Config struct {
	Handlers int           // that may run at once
	Room     int           // messages that may wait in the process
	Within   time.Duration // of the first failure of a message, in which it waits

	// Open reports whether messages that are earlier than one of their key have failed and were
	// neither handled nor discarded since. Nil: this process alone counts.
	Open func(ctx context.Context, w Waiting) (bool, error)
}

// Waiting is a message that waits for earlier ones.
type Waiting struct {
	Key, Fingerprint string
	Sequence         int64     // 0: it has none
	First            time.Time // when it failed first
}

// IsAfter reports whether another message is earlier, which has a sequence number, 0 for none, and
// failed at a time: one with a sequence number comes before those without. Two messages are never
// both earlier, or they would wait for each other.
func (w Waiting) IsAfter(sequence int64, failed time.Time) bool {
	switch {
	case sequence > 0 && w.Sequence > 0:
		return sequence < w.Sequence
	case sequence > 0 || w.Sequence > 0:
		return sequence > 0
	}
	return failed.Before(w.First)
}

const (
	// memoryWait is how long a message waits in the process at once, well below RabbitMQ's
	// consumer_timeout.
	memoryWait = 5 * time.Minute

	// openEvery is how often Open is called for a message that waits, at first, openAtMost how
	// often in the end, and openAfter how long after a failure its event is surely stored.
	openEvery  = 5 * time.Second
	openAtMost = 10 * time.Second
	openAfter  = 30 * time.Second

	// standsAfter is about how long a message waits until that is recorded: most wait for a moment.
	standsAfter = 10 * time.Second

	// returnGrace is how long after its time a message that waits for its next attempt is
	// waited for, and lostGrace for how long one that went back to the queue.
	returnGrace = 5 * time.Minute
	lostGrace   = 10 * time.Second

	maxKeys   = 10_000 // with messages that are not in the process
	minForget = 100    // messages of a key, with which it looks for some to forget
)

// Line has the messages of a route. A nil Line has none, and gives turns to all.
type Line struct {
	cfg    Config
	now    func() time.Time
	turns  chan struct{} // a token for each handler that runs
	closed chan struct{}
	close  func()

	mu      sync.Mutex // guards the fields below, and the fields of tickets
	keys    map[string]*key
	arrived int64 // the latest time of arrival, in nanoseconds, each once
	waiting int
}

// key has the messages of one key that are not handled yet.
type key struct {
	messages map[string]*message // by fingerprint
	changed  chan struct{}       // closed when one of them has been handled
	handled  int
	kept     int // messages after the latest forgetting
}

// message is a message that is not handled yet.
type message struct {
	id      string
	arrived int64 // its time of arrival, in nanoseconds
	place   int64 // its sequence number, or arrived
	inside  int   // deliveries that the process has
	failed  bool  // it was given up
	alone   bool  // it waits elsewhere, for a message that it does not find here
	early   int   // 1 + the messages of the key that were handled before its latest attempt that failed early; 0: none
	changed time.Time
	until   time.Time // it counts no longer, if it is not in the process
}

// New returns an empty line.
func New(cfg Config, now func() time.Time) *Line {
	l := &Line{cfg: cfg, now: now, turns: make(chan struct{}, cfg.Handlers), closed: make(chan struct{}), keys: map[string]*key{}}
	l.close = sync.OnceFunc(func() { close(l.closed) })
	return l
}

// Close ends all waits, as the route does.
func (l *Line) Close() { l.close() }

// Ticket is one delivery of a message, from its arrival to its acknowledgement. A nil Ticket
// waits for nothing.
type Ticket struct {
	line        *Line
	key         string // "": it has none
	fingerprint string
	sequence    int64
	settled     bool
	seen        int // messages of the key that were handled before the attempt
}

// Arrival is a message that is delivered.
type Arrival struct {
	Key         string // "": it waits for none
	Fingerprint string
	ID          string // of the publisher; "": none
	Sequence    int64  // place among the messages of its key, from 1; 0: the order of arrival
	Position    int64  // that Ticket.Position returned at an earlier delivery; 0: none
}

// Arrive is called with each message that is delivered, in the order of the queue.
func (l *Line) Arrive(a Arrival) *Ticket {
	name, fingerprint := a.Key, a.Fingerprint
	t := &Ticket{line: l, key: name, fingerprint: fingerprint, sequence: max(0, a.Sequence)}
	if name == "" {
		return t
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.keys[name]
	if k == nil {
		l.forget()
		k = &key{messages: map[string]*message{}, changed: make(chan struct{})}
		l.keys[name] = k
	}
	m := k.messages[fingerprint]
	if m == nil {
		l.arrived = max(l.arrived+1, l.now().UnixNano())
		m = &message{id: a.ID, arrived: l.arrived}
		k.messages[fingerprint] = m
	}
	if a.Position > 0 {
		m.arrived = a.Position
	}
	if m.place = m.arrived; a.Sequence > 0 {
		m.place = math.MinInt64 + a.Sequence // before those without
	}
	m.inside++
	m.alone = false
	return t
}

// Position returns the time of arrival of the message, in nanoseconds, for its next delivery.
func (t *Ticket) Position() int64 {
	if t == nil || t.key == "" {
		return 0
	}
	t.line.mu.Lock()
	defer t.line.mu.Unlock()
	if _, m := t.message(); m != nil {
		return m.arrived
	}
	return 0
}

// forget removes messages that count no longer, if there are many keys.
func (l *Line) forget() {
	if len(l.keys) < maxKeys {
		return
	}
	for name, k := range l.keys {
		for fingerprint, m := range k.messages {
			if m.inside == 0 && (m.until.Before(l.now()) || len(l.keys) >= 2*maxKeys) {
				delete(k.messages, fingerprint)
			}
		}
		if len(k.messages) == 0 {
			delete(l.keys, name)
		}
	}
}

// forget removes the messages that count no longer, once there are twice as many as it left: those
// that another process has handled, or that were given up, do not return.
func (k *key) forget(now time.Time) {
	if len(k.messages) < max(2*k.kept, minForget) {
		return
	}
	maps.DeleteFunc(k.messages, func(_ string, m *message) bool { return m.inside == 0 && m.until.Before(now) })
	k.kept = len(k.messages)
}

// Begin waits until a handler may run; End releases it. ok is false if the route stops or ctx
// ends before.
func (t *Ticket) Begin(ctx context.Context) (ok bool) {
	if t == nil {
		return true
	}
	select {
	case t.line.turns <- struct{}{}:
		t.seen = t.handled()
		return true
	case <-t.line.closed:
	case <-ctx.Done():
	}
	return false
}

// handled returns the number of messages of the key that were handled.
func (t *Ticket) handled() int {
	t.line.mu.Lock()
	defer t.line.mu.Unlock()
	if k := t.line.keys[t.key]; k != nil {
		return k.handled
	}
	return 0
}

// End is called after a handler has returned.
func (t *Ticket) End() {
	if t != nil {
		<-t.line.turns
	}
}

// Handled records that the message was handled: the next ones of its key go.
func (t *Ticket) Handled() {
	t.settle(func(k *key, _ *message) {
		delete(k.messages, t.fingerprint)
		k.handled++
		k.announce()
	})
}

// Waits records that the message goes to a delay queue until its next attempt.
func (t *Ticket) Waits(delay time.Duration) {
	t.settle(func(_ *key, m *message) { m.failed, m.until = false, t.line.now().Add(delay+returnGrace) })
}

// GivenUp records that the message is poison: an open failure until it is replayed.
func (t *Ticket) GivenUp() {
	t.settle(func(k *key, m *message) {
		m.failed, m.until = true, t.line.now().Add(t.line.cfg.Within)
		k.announce()
	})
}

func (t *Ticket) settle(change func(*key, *message)) {
	if t == nil || t.key == "" {
		return
	}
	t.line.mu.Lock()
	defer t.line.mu.Unlock()
	if k, m := t.message(); m != nil {
		t.settled, m.changed = true, t.line.now()
		change(k, m)
	}
}

// Leave is called once the message is acknowledged or requeued. A message without an outcome
// returns soon.
func (t *Ticket) Leave() {
	if t == nil || t.key == "" {
		return
	}
	t.line.mu.Lock()
	defer t.line.mu.Unlock()
	k, m := t.message()
	if m != nil {
		if m.inside--; !t.settled {
			m.changed, m.until = t.line.now(), t.line.now().Add(lostGrace)
		}
	}
	if k == nil {
		return
	}
	if k.forget(t.line.now()); len(k.messages) == 0 {
		delete(t.line.keys, t.key)
	}
}

func (t *Ticket) message() (*key, *message) {
	k := t.line.keys[t.key]
	if k == nil {
		return nil, nil
	}
	return k, k.messages[t.fingerprint]
}

func (k *key) announce() {
	close(k.changed)
	k.changed = make(chan struct{})
}

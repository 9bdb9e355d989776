// Package fairness divides the handlers of a route among the keys of its messages, such as
// the receivers of webhooks: a key that is slow or fails delays no other.
package fairness

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/watershipmq/watership/retry"
)

// Gate decides when a handler may have a message. A key has a part of the handlers, and a
// breaker. A message whose key has no handler left waits in the process. If the process has
// no room for others and handlers are idle, half of the messages of the key that has the
// most of them go to delay queues.
//
// The subscriber of the route calls Arrive for each message, in the order of the queue, and
// Leave once the message is acknowledged. In between, its handler calls Begin and, if it
// gets a turn, one of Succeeded and Failed.
type Gate struct {
	cfg Config
	now func() time.Time

	mu       sync.Mutex // guards the fields below, and all fields of keys and tickets
	closed   bool
	keys     map[string]*key
	crowded  map[*key]int // the number of tickets that wait for a key, of those with any
	present  int          // tickets that are not gone
	arrived  time.Time    // when the latest ticket did
	idleWait time.Duration
	madeRoom time.Time // when messages left the process since handlers were idle
	emptied  time.Time // when the queue was empty
	fresh    time.Time // when the latest message arrived that had not been delivered before
	holding  bool      // an operator may hold keys of the route, or it is not known yet
	running  int       // tickets that have a handler
	probes   int       // tickets with a handler, of keys whose breaker is open
	ready    []*Ticket // tickets that wait for a handler, but not for their key; oldest first
	position int64     // the latest that was given

	// places are the positions of messages that are not in the process, by their ids, if
	// ordered. Those that left without an outcome are delivered again, after later messages of
	// their key went to delay queues.
	places map[string][]int64

	// returned is the latest time at which a message that has returned was due.
	returned time.Time
}

// Delivery is a message that is delivered.
type Delivery struct {
	Key         string // "": the message needs only a handler
	ID          string
	Position    int64 // if it has waited in a delay queue for its key; 0 if not
	Redelivered bool
}

// Place is the place of a message in the order of its key, if ordered.
type Place struct {
	Key      string    `json:"key"`
	ID       string    `json:"id"`
	Position int64     `json:"position"`
	Due      time.Time `json:"due,omitzero"` // to return from a delay queue; zero: the process has it
}

// Config configures a Gate.
type Config struct {
	Concurrency int // handlers of the route
	PerKey      int // handlers of one key
	Room        int // messages that may wait in the process, in addition to Concurrency

	// Interval is the least time between the starts of two messages of one key; 0: none.
	Interval time.Duration

	// Ordered is whether the messages of a key are handled one after the other, in the
	// order of their arrival, also if an attempt at one of them failed.
	Ordered bool

	Breaker retry.Breaker // of each key

	// Unknown is called with the lock of the Gate when it has to be known whether an operator holds a key. Nil: no
	// calls.
	Unknown func()

	// Paused is called when the breaker of a key opens, with its error, and Resumed when it
	// closes. They are called with the lock of the Gate.
	Paused  func(key, why string)
	Resumed func(key string, after time.Duration)

	// Overdue is called when messages of a key have waited for some time for an earlier one that
	// should be back, and with lost when they wait no longer. It is called with the lock of the
	// Gate. Nil: no calls.
	Overdue func(key string, due time.Time, lost bool)
}

// Reason is the reason why a message waits.
type Reason string

// The reasons why a message waits.
const (
	Busy        Reason = "busy"        // its key has no handler left
	Unavailable Reason = "unavailable" // the breaker of its key is open
	Order       Reason = "order"       // an earlier message of its key is not done
	Held        Reason = "held"        // an operator holds its key
)

// Reasons lists every Reason.
func Reasons() []Reason { return []Reason{Busy, Unavailable, Order, Held} }

// Wait is the result of Begin for a message that waits in a delay queue.
type Wait struct {
	Reason Reason
	Delay  time.Duration // of a delay queue
}

// ErrClosed is returned by Begin after Close.
var ErrClosed = errors.New("the route stops")

const (
	maxKeys = 10_000 // that are remembered without need, and as many places

	// memoryWait is how long a message waits in the process at once, well below RabbitMQ's
	// consumer_timeout.
	memoryWait = 5 * time.Minute

	// idleWait is how long no message arrives, while handlers are idle, until messages leave
	// the process: the consumer may have prefetched as many as it may. If then none arrives
	// within refillWait, the queue is empty, and the next wait is twice as long.
	idleWait        = 500 * time.Millisecond
	longestIdleWait = time.Minute
	refillWait      = 250 * time.Millisecond

	// returnGrace is how long after its time a message in a delay queue is waited for by
	// the next ones of its key.
	returnGrace = 5 * time.Minute

	// quietTime is how long no message arrives although there is room, until the queue counts
	// as empty.
	quietTime = 10 * time.Second

	// lostGrace is how long a message is waited for that is in the queue of the route, since it
	// left without an outcome: the broker delivers it before others.
	lostGrace = 10 * time.Second

	// overdueAfter is how long after its time a message is missed.
	overdueAfter = 5 * time.Second
)

// New returns a Gate.
func New(cfg Config, now func() time.Time) *Gate {
	if cfg.Ordered {
		cfg.PerKey = 1
	}
	return &Gate{
		cfg: cfg, now: now, keys: map[string]*key{}, crowded: map[*key]int{}, places: map[string][]int64{}, idleWait: idleWait,
		holding: cfg.Unknown != nil,
	}
}

// Close makes Begin return ErrClosed to all messages that have no handler.
func (g *Gate) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for k := range maps.Clone(g.crowded) {
		for _, t := range k.waiting() {
			t.refuse(outcome{err: ErrClosed})
		}
	}
	for _, t := range slices.Clone(g.ready) {
		t.refuse(outcome{err: ErrClosed})
	}
}

// Arrive is called with each message that is delivered.
func (g *Gate) Arrive(d Delivery) *Ticket {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := &Ticket{gate: g, id: d.ID, position: d.Position, turn: make(chan outcome, 1)}
	if g.quiet() {
		g.emptied = g.now()
	}
	g.present++
	g.arrived = g.now()
	if !d.Redelivered && d.Position <= 0 {
		g.fresh = g.arrived
	}
	if g.arrived.Sub(g.madeRoom) < refillWait {
		g.idleWait = idleWait
	}
	if d.Key != "" {
		t.key = g.key(d.Key)
		g.askAbout(t.key)
	}
	if t.position <= 0 {
		t.position = g.place(t, d.Redelivered)
	}
	if t.key != nil {
		g.dropPlace(t.id, t.position)
		t.key.add(t, d.Position > 0)
	}
	return t
}

// place returns the position of a message that has none: a new one, or the former one of a
// message that is delivered once more, as after a lost connection.
func (g *Gate) place(t *Ticket, redelivered bool) int64 {
	if redelivered && t.key != nil && g.cfg.Ordered {
		if former, found := g.formerPlace(t); found {
			return former
		}
	}
	g.position = max(g.position+1, g.now().UnixNano())
	return g.position
}

// formerPlace returns the position that a message had when it was delivered before. Equal messages cannot be
// distinguished, so each takes the position with the fewest deliveries in the process: a position without a message would
// hold up the next ones. An equal message in a delay queue returns with its own position.
func (g *Gate) formerPlace(t *Ticket) (position int64, found bool) {
	deliveries := map[int64]int{}
	for _, queued := range g.places[t.id] {
		if t.key.isQueued(queued) {
			deliveries[queued] = 0
		}
	}
	for _, other := range t.key.tickets {
		if other.id == t.id {
			deliveries[other.position]++
		}
	}
	for p, n := range deliveries {
		if fewest := deliveries[position]; !found || n < fewest || n == fewest && p < position {
			position, found = p, true
		}
	}
	if places := g.places[t.id]; !found && len(places) > 0 {
		return places[0], true
	}
	return position, found
}

// keepPlace keeps the position of a message that left without an outcome. The next ones of
// its key wait until it is delivered again.
func (g *Gate) keepPlace(t *Ticket) {
	if !g.cfg.Ordered || t.key == nil {
		return
	}
	if slices.ContainsFunc(t.key.tickets, func(other *Ticket) bool { return other != t && other.position == t.position }) {
		return
	}
	if len(g.places) >= maxKeys { // those that another process got
		clear(g.places)
	}
	g.addPlace(t.id, t.position)
	t.key.addQueued(t.position)
}

func (g *Gate) addPlace(id string, position int64) {
	at, found := slices.BinarySearch(g.places[id], position)
	if !found {
		g.places[id] = slices.Insert(g.places[id], at, position)
	}
}

func (g *Gate) dropPlace(id string, position int64) {
	rest := slices.DeleteFunc(g.places[id], func(other int64) bool { return other == position })
	if g.places[id] = rest; len(rest) == 0 {
		delete(g.places, id)
	}
}

// Forget removes the places of all messages that are not in the process: another process may
// have handled them since.
func (g *Gate) Forget() {
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.places)
	for _, k := range g.keys {
		k.away = nil
		k.advance()
	}
	g.grant()
}

// Remember adds the place of a message that is to come: from a delay queue, or once more,
// since no process has finished it.
func (g *Gate) Remember(p Place) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.Due.IsZero() {
		g.key(p.Key).addQueued(p.Position) // unless its place was not removed
	} else {
		g.key(p.Key).addAway(p.Position, p.Due)
	}
	g.addPlace(p.ID, p.Position)
	g.position = max(g.position, p.Position)
}

// Withdraw removes the place of a message that does not come any more, since it was given up
// elsewhere.
func (g *Gate) Withdraw(p Place) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dropPlace(p.ID, p.Position)
	k, known := g.keys[p.Key]
	if !known {
		return
	}
	if at, found := k.findAway(p.Position); found {
		k.away = slices.Delete(k.away, at, at+1)
		k.advance()
		g.grant()
	}
}

// Begin waits until a handler may have the message. A message that has to wait longer gets a
// Wait instead, with a Reason. exhausted is whether the message has waited for an
// unavailable key as long as it may: then it does not wait for the breaker.
func (g *Gate) Begin(ctx context.Context, t *Ticket, exhausted bool) (Wait, error) {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return Wait{}, ErrClosed
	}
	t.exhausted = exhausted
	t.enter()
	t.waited = t.stage != running
	g.mu.Unlock()
	timer := time.NewTicker(idleWait)
	defer timer.Stop()
	for {
		select {
		case o := <-t.turn:
			return o.wait, o.err
		case <-timer.C:
			g.checkWait(t)
		case <-ctx.Done():
			return Wait{}, context.Cause(ctx)
		}
	}
}

// checkWait ends the wait of a ticket in the process if it has waited for long, and the waits
// of others if handlers are idle.
func (g *Gate) checkWait(t *Ticket) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	if now.Sub(t.since) >= memoryWait || t.key != nil && t.key.missing(t) {
		t.giveUp() // if it returns before a message that is missing, that is lost
	}
	latest := g.arrived
	if g.madeRoom.After(latest) {
		latest = g.madeRoom
	}
	if g.running < g.cfg.Concurrency && now.Sub(latest) >= g.idleWait {
		g.madeRoom, g.idleWait = now, min(2*g.idleWait, longestIdleWait)
		g.makeRoom()
	}
}

// grant gives free handlers to the tickets that are ready. If handlers stay idle, and the
// process has no room for other messages, it makes room.
func (g *Gate) grant() {
	for len(g.ready) > 0 && g.running < g.cfg.Concurrency {
		t := g.ready[0]
		g.ready = g.ready[1:]
		g.running++
		t.begin()
	}
	if g.running < g.cfg.Concurrency && g.present >= g.cfg.Concurrency+g.cfg.Room {
		g.makeRoom()
	}
}

// makeRoom makes the newer half of the tickets wait in a delay queue that wait for the key
// with the most of them.
func (g *Gate) makeRoom() {
	var most *key
	for k, tickets := range g.crowded {
		if most == nil || tickets > g.crowded[most] {
			most = k
		}
	}
	if most == nil {
		return
	}
	tickets := most.waiting()
	for _, t := range tickets[len(tickets)/2:] {
		t.giveUp()
	}
}

// lost reports whether a message has not returned until a time, although later ones have, or
// the queue has been empty since. A message that is in the queue of the route comes before those
// that have never been delivered.
func (g *Gate) lost(m awayMessage) bool {
	if !g.now().After(m.until) {
		return false
	}
	return g.returned.After(m.until) || g.emptied.After(m.until) || m.queued && g.fresh.After(m.until) || g.quiet()
}

// quiet reports whether no message has arrived for some time, although there is room.
func (g *Gate) quiet() bool {
	return g.present < g.cfg.Concurrency+g.cfg.Room && g.now().Sub(g.arrived) > quietTime
}

// key returns the key of a name.
func (g *Gate) key(name string) *key {
	k, known := g.keys[name]
	if !known {
		if len(g.keys) >= maxKeys {
			g.forget()
		}
		k = &key{gate: g, name: name}
		g.keys[name] = k
	}
	if now := g.now(); now.Sub(k.used) > longestWait {
		k.outside = 0
	}
	k.used = g.now()
	return k
}

// forget removes half of the keys that no message has now, and whose interval is over: those whose breaker is closed
// first, and of these the ones that were used longest ago.
func (g *Gate) forget() {
	var idle []*key
	for _, k := range g.keys {
		k.expireAway()
		if len(k.tickets) == 0 && len(k.away) == 0 && !k.next.After(g.now()) {
			idle = append(idle, k)
		}
	}
	slices.SortFunc(idle, func(a, b *key) int {
		switch {
		case a.paused == b.paused:
			return a.used.Compare(b.used)
		case b.paused:
			return -1
		}
		return 1
	})
	for _, k := range idle[:(len(idle)+1)/2] {
		if k.paused {
			k.resumed()
		}
		delete(g.keys, k.name)
	}
}

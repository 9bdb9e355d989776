package fairness

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/pipeline/internal/admission/breaker"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// longestKey is the length in bytes of a key of which the process keeps no digest.
const longestKey = 255

// ShortKey returns a key, or the digest of a long one.
func ShortKey(key string) string {
	if len(key) <= longestKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// key has the messages of one key, and its breaker.
type key struct {
	gate    *Gate
	name    string
	used    time.Time
	tickets []*Ticket     // by position
	away    []awayMessage // if ordered: those that are not in the process, by position
	taken   int           // handlers, with those for which its tickets are ready
	next    time.Time     // when another message may start, with Config.Interval
	waking  bool          // a timer calls wake then

	healthy bool          // its latest attempt succeeded
	took    time.Duration // an attempt, on average
	outside int           // about the number of messages that wait for it in delay queues

	asked  time.Time // when it was known whether an operator holds the key; zero: it has to be asked
	held   bool
	heldAt time.Time

	breaker    *breaker.Breaker // nil before the first failure
	paused     bool             // the breaker is open
	pausedAt   time.Time
	probing    bool
	probesLeft int // of this round
	nextRound  time.Time
}

// awayMessage is a message in a delay queue, or in the queue of the route.
type awayMessage struct {
	position int64
	due      time.Time
	until    time.Time // it is waited for
	queued   bool      // it is in the queue of the route
	told     bool      // that it is overdue
}

const (
	longestWait = 15 * time.Minute

	// A message that waits for an unavailable key returns after this part of the time for
	// which the key has been unavailable, since it moves through three queues each time.
	outagePart     = 10
	longestOutage  = 5 * time.Minute
	outageInterval = 400 * time.Millisecond // between messages of one key that return

	firstHold = 5 * time.Second // that a message waits for a held key

	firstTook = 100 * time.Millisecond // an attempt, before the first has ended

	// earlyReturn is the percentage of the time until its turn after which a message returns,
	// if ordered: delays are rounded up by half, and a message that is late stops its key.
	earlyReturn = 60
)

// add adds a ticket. waited is whether its message was in a delay queue for the key.
func (k *key) add(t *Ticket, waited bool) {
	if waited {
		k.outside = max(0, k.outside-1)
	}
	if at, found := k.findAway(t.position); found {
		if away := k.away[at]; !away.queued && away.due.After(k.gate.returned) {
			k.gate.returned = away.due
		}
		k.away = slices.Delete(k.away, at, at+1)
	}
	at, _ := slices.BinarySearchFunc(k.tickets, t.position, func(other *Ticket, position int64) int {
		return cmp.Compare(other.position, position)
	})
	k.tickets = slices.Insert(k.tickets, at, t)
}

func (k *key) remove(t *Ticket) {
	k.tickets = slices.DeleteFunc(k.tickets, func(other *Ticket) bool { return other == t })
}

// waiting returns the tickets that wait for the key.
func (k *key) waiting() []*Ticket {
	return slices.DeleteFunc(slices.Clone(k.tickets), func(t *Ticket) bool { return t.stage != waiting })
}

// advance makes tickets ready that wait for the key, as far as it has handlers left.
func (k *key) advance() {
	for _, t := range k.waiting() {
		switch {
		case !k.admits(t):
			if k.paused || k.held {
				t.giveUp()
			}
		default:
			k.taken++
			k.next = k.gate.now().Add(k.gate.cfg.Interval)
			if t.probe = k.paused; t.probe {
				k.probing = true
				k.gate.probes++
			}
			t.makeReady()
		}
	}
}

// admits reports whether a ticket may have a handler of the key's part.
func (k *key) admits(t *Ticket) bool {
	switch {
	case k.taken >= k.gate.cfg.PerKey, k.gate.cfg.Ordered && !k.isNext(t), k.isTooEarly(), k.gate.holding && (k.held || k.asked.IsZero()):
		return false
	case !k.paused:
		return true
	case k.gate.probes >= max(1, k.gate.cfg.Concurrency/4): // keys that time out leave handlers to the others
		return false
	}
	return t.exhausted || !k.probing && !k.gate.now().Before(k.nextRound)
}

// isTooEarly reports whether another message of the key has started within the interval. Then it calls advance
// at its end.
func (k *key) isTooEarly() bool {
	left := k.next.Sub(k.gate.now())
	if left <= 0 {
		return false
	}
	if !k.waking {
		k.waking = true
		time.AfterFunc(left, k.wake)
	}
	return true
}

func (k *key) wake() {
	k.gate.mu.Lock()
	defer k.gate.mu.Unlock()
	k.waking = false
	if !k.gate.closed {
		k.advance()
		k.gate.grant()
	}
}

// isNext reports whether no earlier message of the key is in the process or away.
func (k *key) isNext(t *Ticket) bool {
	return k.tickets[0] == t && k.earlierDue(t).IsZero()
}

// earlierDue returns when the first of the earlier messages that are not in the process is due;
// zero if none exists.
func (k *key) earlierDue(t *Ticket) (due time.Time) {
	k.expireAway()
	if len(k.away) == 0 || k.away[0].position > t.position {
		return time.Time{}
	}
	return k.away[0].due
}

// expireAway removes the first messages that have not returned in time, although later ones
// have, or the queue is empty.
func (k *key) expireAway() {
	for len(k.away) > 0 && k.gate.lost(k.away[0]) {
		if first := k.away[0]; first.told {
			k.gate.cfg.Overdue(k.name, first.due, true)
		}
		k.away = k.away[1:]
	}
}

// missing reports whether a message that a ticket waits for should have been back for long. It
// soon logs that it should be back.
func (k *key) missing(t *Ticket) bool {
	if k.earlierDue(t).IsZero() {
		return false
	}
	first, now := &k.away[0], k.gate.now()
	if !first.told && now.Sub(first.due) > overdueAfter && k.gate.cfg.Overdue != nil {
		first.told = true
		k.gate.cfg.Overdue(k.name, first.due, false)
	}
	return now.After(first.until)
}

// addAway adds a message that is in a delay queue.
func (k *key) addAway(position int64, due time.Time) {
	until := due.Add(returnGrace)
	if soon := k.gate.now().Add(lostGrace); until.Before(soon) {
		until = soon
	}
	k.setAway(awayMessage{position: position, due: due, until: until})
}

// addQueued adds a message that is in the queue of the route.
func (k *key) addQueued(position int64) {
	now := k.gate.now()
	k.setAway(awayMessage{position: position, due: now, until: now.Add(lostGrace), queued: true})
}

// isQueued reports whether the message with a position is in the queue of the route.
func (k *key) isQueued(position int64) bool {
	at, found := k.findAway(position)
	return found && k.away[at].queued
}

func (k *key) setAway(m awayMessage) {
	at, found := k.findAway(m.position)
	if !found {
		k.away = slices.Insert(k.away, at, m)
	}
	k.away[at] = m
}

func (k *key) findAway(position int64) (at int, found bool) {
	return slices.BinarySearchFunc(k.away, position, func(other awayMessage, position int64) int {
		return cmp.Compare(other.position, position)
	})
}

// begin is called before an attempt.
func (k *key) begin() (epoch int) {
	if k.breaker == nil {
		return 0
	}
	return k.breaker.Begin()
}

// release is called for a ticket that has a handler of the key's part no longer.
func (k *key) release(t *Ticket) {
	k.taken--
	if t.probe {
		t.probe, k.probing = false, false
		k.gate.probes--
	}
}

func (k *key) succeeded(t *Ticket) {
	took := k.gate.now().Sub(t.began)
	k.took += (took - k.took) / 4
	if k.took == 0 {
		k.took = took
	}
	k.healthy = true
	if k.breaker == nil {
		return
	}
	k.breaker.RecordSuccess(t.epoch)
	if since, _ := k.breaker.Outage(); k.paused && since.IsZero() {
		k.resumed()
	}
}

func (k *key) resumed() {
	k.paused = false
	k.gate.cfg.Resumed(k.name, k.gate.now().Sub(k.pausedAt))
}

func (k *key) failed(t *Ticket, before schemas.State, f breaker.Failure) (effect breaker.Effect, news bool) {
	switch f.Cause {
	case breaker.Exhausted: // it concerns all keys
		return breaker.AttemptReturned, true
	case breaker.DecidedByHandler, breaker.ReturnedByHandler: // it says nothing about the key
	default:
		news, k.healthy = k.healthy, false
	}
	if k.breaker == nil {
		k.breaker = breaker.New(k.gate.cfg.Breaker, k.gate.now)
	}
	effect = k.breaker.RecordFailure(t.epoch, before, f)
	since, why := k.breaker.Outage()
	switch {
	case !k.paused && !since.IsZero():
		k.paused, k.pausedAt = true, since
		k.beginRound(f.Cause)
		k.gate.cfg.Paused(k.name, why.Message)
	case k.paused && t.probe:
		if k.probesLeft--; k.probesLeft <= 0 {
			k.breaker.RoundFailed()
			k.beginRound(f.Cause)
		}
	}
	return effect, news
}

// beginRound begins the pause before the next round of probes. A key that answers has more
// than one, since many bad messages may be in front of the good ones.
func (k *key) beginRound(c breaker.Cause) {
	k.nextRound = k.gate.now().Add(k.breaker.Pause())
	k.probesLeft = 1
	if c == breaker.MessageFailure {
		k.probesLeft = k.breaker.Probes()
	}
}

// wait returns how long a ticket has to wait in a delay queue. Messages that wait for the
// same key return about as fast as it handles them.
func (k *key) wait(t *Ticket) Wait {
	k.outside++
	now, took := k.gate.now(), cmp.Or(k.took, firstTook)
	if due := k.earlierDue(t); k.gate.cfg.Ordered && (!k.paused && !k.held || !due.IsZero()) {
		return newWait(Order, max(due.Sub(now), min(time.Duration(k.ahead(t))*took, longestWait))/100*earlyReturn)
	}
	if k.held {
		part := min(now.Sub(k.heldAt)/outagePart, longestOutage)
		return newWait(Held, max(firstHold, part, k.after(outageInterval)))
	}
	if k.paused {
		part := min(now.Sub(k.pausedAt)/outagePart, longestOutage)
		return newWait(Unavailable, max(k.nextRound.Sub(now), part, k.after(outageInterval)))
	}
	return newWait(Busy, k.after(max(took/time.Duration(k.gate.cfg.PerKey), k.gate.cfg.Interval)))
}

// ahead returns the number of earlier messages of the key, if ordered.
func (k *key) ahead(t *Ticket) int {
	away, _ := k.findAway(t.position)
	return away + slices.Index(k.tickets, t)
}

// after returns a time within that which the messages of the key need, one for each interval.
// It is random, so that they do not return all at once.
func (k *key) after(interval time.Duration) time.Duration {
	all := min(time.Duration(k.outside+len(k.tickets))*max(interval, 1), longestWait)
	return backoff.Below(all)
}

// newWait returns a wait of at least a second, with the delay of a standard delay queue.
func newWait(reason Reason, delay time.Duration) Wait {
	return Wait{reason, retry.Deferral(&retry.AfterError{Delay: delay}, 0).Delay}
}

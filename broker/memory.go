package broker

import (
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
)

// memory counts the bytes of messages in the broker, and raises an alarm at its limit,
// as RabbitMQ does (https://www.rabbitmq.com/docs/alarms). Connections of
// ListenInternal have an alarm at twice the limit.
type memory struct {
	used               atomic.Int64 // by all messages
	unfinished         atomic.Int64 // by messages whose rest has not arrived
	exemptConnection   atomic.Pointer[connection]
	external, internal *alarm
}

// messageOverhead estimates the memory of a message in addition to its bytes.
const messageOverhead = 256

func newMemory(limit int64, log *slog.Logger) *memory {
	m := &memory{}
	m.external, m.internal = newAlarm(&m.used, limit, log), newAlarm(&m.used, 2*limit, log)
	return m
}

// add adds bytes; a negative number removes them.
func (m *memory) add(bytes int64) {
	used := m.used.Add(bytes)
	m.external.updateIfCrossed(used)
	m.internal.updateIfCrossed(used)
}

// addUnfinished adds bytes of a message whose rest has not arrived.
func (m *memory) addUnfinished(bytes int64) {
	m.unfinished.Add(bytes)
	m.add(bytes)
}

// tryExempt allows one connection at a time to finish its message where unfinished
// messages alone exceed the limit, since no consumer can free their memory.
func (m *memory) tryExempt(c *connection) bool {
	kept := m.used.Load() - m.unfinished.Load()
	return kept <= m.alarmFor(c).clearLevel() && m.exemptConnection.CompareAndSwap(nil, c)
}

func (m *memory) isExempt(c *connection) bool { return m.exemptConnection.Load() == c }

func (m *memory) endExemption(c *connection) { m.exemptConnection.CompareAndSwap(c, nil) }

func (m *memory) alarmFor(c *connection) *alarm {
	if c.internal {
		return m.internal
	}
	return m.external
}

// alarm is on while messages exceed a limit.
type alarm struct {
	used  *atomic.Int64
	limit atomic.Int64
	log   *slog.Logger
	on    atomic.Bool

	mu      sync.Mutex
	forced  bool          // see Broker.SetMemoryAlarm
	onClear chan struct{} // closed when the alarm ends; made when it begins
	active  bool          // on; guarded by mu
}

func newAlarm(used *atomic.Int64, limit int64, log *slog.Logger) *alarm {
	a := &alarm{used: used, log: log, onClear: make(chan struct{})}
	a.limit.Store(limit)
	return a
}

// clearLevel is the number of bytes at which the alarm ends: nine tenths of the limit,
// so that it does not toggle with every message.
func (a *alarm) clearLevel() int64 { return a.limit.Load() / 10 * 9 }

func (a *alarm) updateIfCrossed(used int64) {
	on := a.on.Load()
	if !on && used > a.limit.Load() || on && used <= a.clearLevel() {
		a.update()
	}
}

func (a *alarm) update() {
	a.mu.Lock()
	defer a.mu.Unlock()
	used, limit := a.used.Load(), a.limit.Load()
	switch {
	case !a.active && (a.forced || used > limit):
		a.active, a.onClear = true, make(chan struct{})
		a.log.Error("out of memory: publishers are blocked until messages are consumed or purged", "limit_bytes", limit)
	case a.active && !a.forced && used <= a.clearLevel():
		a.active = false
		close(a.onClear)
	}
	a.on.Store(a.active)
}

func (a *alarm) force(on bool) {
	a.mu.Lock()
	a.forced = on
	a.mu.Unlock()
	a.update()
}

// disable ends the alarm for good.
func (a *alarm) disable() {
	a.limit.Store(math.MaxInt64)
	a.update()
}

// cleared returns a channel that is closed when the active alarm ends; nil where none
// is active.
func (a *alarm) cleared() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.active {
		return nil
	}
	return a.onClear
}

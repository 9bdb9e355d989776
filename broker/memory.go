package broker

import (
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
)

// memory counts the bytes of messages that the broker keeps, and raises an alarm
// at its limit, as RabbitMQ does (https://www.rabbitmq.com/docs/alarms), and one
// for the inside at twice as much.
type memory struct {
	used               atomic.Int64 // all of them
	unfinished         atomic.Int64 // of messages that have come in part
	exempted           atomic.Pointer[connection]
	external, internal *alarm
}

// messageOverhead stands for what the broker keeps beside the bytes of a message.
const messageOverhead = 256

func newMemory(limit int64, log *slog.Logger) *memory {
	m := &memory{}
	m.external, m.internal = newAlarm(&m.used, limit, log), newAlarm(&m.used, 2*limit, log)
	return m
}

// add counts bytes that came, or went where they are negative.
func (m *memory) add(bytes int64) {
	used := m.used.Add(bytes)
	m.external.check(used)
	m.internal.check(used)
}

// addUnfinished counts bytes of a message that has come in part.
func (m *memory) addUnfinished(bytes int64) {
	m.unfinished.Add(bytes)
	m.add(bytes)
}

// exempt lets one connection at a time finish its message where unfinished messages
// alone exceed the limit, since no consumer can end that.
func (m *memory) exempt(c *connection) bool {
	kept := m.used.Load() - m.unfinished.Load()
	return kept <= m.alarmFor(c).clearLevel() && m.exempted.CompareAndSwap(nil, c)
}

func (m *memory) isExempt(c *connection) bool { return m.exempted.Load() == c }

func (m *memory) endExemption(c *connection) { m.exempted.CompareAndSwap(c, nil) }

func (m *memory) alarmFor(c *connection) *alarm {
	if c.internal {
		return m.internal
	}
	return m.external
}

// alarm is on while too much is kept.
type alarm struct {
	used  *atomic.Int64
	limit atomic.Int64
	log   *slog.Logger
	on    atomic.Bool

	mu     sync.Mutex
	forced bool          // see Broker.SetMemoryAlarm
	clear  chan struct{} // closed when the alarm ends; replaced when one begins
	active bool          // the alarm is on
}

func newAlarm(used *atomic.Int64, limit int64, log *slog.Logger) *alarm {
	a := &alarm{used: used, log: log, clear: make(chan struct{})}
	a.limit.Store(limit)
	return a
}

// clearLevel is what may be kept for the alarm to end: nine tenths of the limit, so
// that it does not flicker.
func (a *alarm) clearLevel() int64 { return a.limit.Load() / 10 * 9 }

func (a *alarm) check(used int64) {
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
		a.active, a.clear = true, make(chan struct{})
		a.log.Error("out of memory: who publishes waits until messages are consumed or purged", "limit_bytes", limit)
	case a.active && !a.forced && used <= a.clearLevel():
		a.active = false
		close(a.clear)
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

// cleared is closed when the alarm that is on ends; nil where none is.
func (a *alarm) cleared() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.active {
		return nil
	}
	return a.clear
}

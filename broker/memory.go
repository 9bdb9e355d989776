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
	used            atomic.Int64 // all of them
	unfinished      atomic.Int64 // of messages that have come in part
	exempted        atomic.Pointer[connection]
	outside, inside *alarm
}

// entryOverhead stands for what the broker keeps beside the bytes of a message.
const entryOverhead = 256

func newMemory(limit int64, log *slog.Logger) *memory {
	m := &memory{}
	m.outside, m.inside = newAlarm(&m.used, limit, log), newAlarm(&m.used, 2*limit, log)
	return m
}

// add counts bytes that came, or went where they are negative.
func (m *memory) add(bytes int64) {
	used := m.used.Add(bytes)
	m.outside.look(used)
	m.inside.look(used)
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
	return kept <= m.alarmFor(c).enough() && m.exempted.CompareAndSwap(nil, c)
}

func (m *memory) isExempt(c *connection) bool { return m.exempted.Load() == c }

func (m *memory) endExemption(c *connection) { m.exempted.CompareAndSwap(c, nil) }

func (m *memory) alarmFor(c *connection) *alarm {
	if c.inside {
		return m.inside
	}
	return m.outside
}

// alarm is on while too much is kept.
type alarm struct {
	used  *atomic.Int64
	limit atomic.Int64
	log   *slog.Logger
	on    atomic.Bool

	mu      sync.Mutex
	forced  bool          // see Broker.SetMemoryAlarm
	relief  chan struct{} // closed when the alarm ends; replaced when one begins
	waiting bool          // the alarm is on
}

func newAlarm(used *atomic.Int64, limit int64, log *slog.Logger) *alarm {
	a := &alarm{used: used, log: log, relief: make(chan struct{})}
	a.limit.Store(limit)
	return a
}

// enough is what may be kept for the alarm to end: nine tenths of the limit, so
// that it does not flicker.
func (a *alarm) enough() int64 { return a.limit.Load() / 10 * 9 }

func (a *alarm) look(used int64) {
	on := a.on.Load()
	if !on && used > a.limit.Load() || on && used <= a.enough() {
		a.review()
	}
}

func (a *alarm) review() {
	a.mu.Lock()
	defer a.mu.Unlock()
	used, limit := a.used.Load(), a.limit.Load()
	switch {
	case !a.waiting && (a.forced || used > limit):
		a.waiting, a.relief = true, make(chan struct{})
		a.log.Error("out of memory: who publishes waits until messages are consumed or purged", "limit_bytes", limit)
	case a.waiting && !a.forced && used <= a.enough():
		a.waiting = false
		close(a.relief)
	}
	a.on.Store(a.waiting)
}

func (a *alarm) force(on bool) {
	a.mu.Lock()
	a.forced = on
	a.mu.Unlock()
	a.review()
}

// lift ends the alarm for good.
func (a *alarm) lift() {
	a.limit.Store(math.MaxInt64)
	a.review()
}

// relieved is closed when the alarm that is on ends; nil where none is.
func (a *alarm) relieved() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.waiting {
		return nil
	}
	return a.relief
}

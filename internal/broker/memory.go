package broker

import (
	"log/slog"
	"sync"
	"sync/atomic"
)

// memory counts the bytes of messages that the broker keeps, and raises an alarm
// at its limit, as RabbitMQ does (https://www.rabbitmq.com/docs/alarms).
type memory struct {
	limit int64
	log   *slog.Logger
	used  atomic.Int64
	alarm atomic.Bool

	mu      sync.Mutex
	relief  chan struct{} // closed when the alarm ends; replaced when one begins
	waiting bool          // an alarm is on
}

// entryOverhead stands for what the broker keeps beside the bytes of a message.
const entryOverhead = 256

func newMemory(limit int64, log *slog.Logger) *memory {
	return &memory{limit: limit, log: log, relief: make(chan struct{})}
}

// add counts bytes that came, or went where they are negative. The alarm ends at
// nine tenths of the limit, so that it does not flicker.
func (m *memory) add(bytes int64) {
	used := m.used.Add(bytes)
	alarm := m.alarm.Load()
	if !alarm && used > m.limit || alarm && used <= m.limit/10*9 {
		m.review()
	}
}

func (m *memory) review() {
	m.mu.Lock()
	defer m.mu.Unlock()
	used := m.used.Load()
	switch {
	case !m.waiting && used > m.limit:
		m.waiting, m.relief = true, make(chan struct{})
		m.log.Error("out of memory: who publishes waits until messages are consumed or purged", "limit_bytes", m.limit)
	case m.waiting && used <= m.limit/10*9:
		m.waiting = false
		close(m.relief)
	}
	m.alarm.Store(m.waiting)
}

// relieved is closed when the alarm that is on ends; nil where none is.
func (m *memory) relieved() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.waiting {
		return nil
	}
	return m.relief
}

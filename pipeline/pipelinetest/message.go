package pipelinetest

import (
	"cmp"
	"fmt"
	"time"

	"github.com/watershipmq/watership/schemas"
)

// Message is a published message. Each of its assertions waits for the next step of the message, and fails the test if
// that is another.
type Message struct {
	ID string // the message id

	pipeline *Pipeline
	queue    string        // whose steps count; "": all
	seen     int           // events before the next step
	delay    time.Duration // after which the next attempt begins
}

// At returns the message at one of several queues that it reaches, whose steps are then followed each on its own.
func (m *Message) At(queue string) *Message {
	at := *m
	at.queue = queue
	return &at
}

// Handled asserts that the message is handled, and returns the messages that its handler published, with all that the
// pipeline adds to them.
func (m *Message) Handled() []schemas.Envelope {
	m.pipeline.t.Helper()
	e := m.next(schemas.Handled)
	m.pipeline.mu.Lock()
	defer m.pipeline.mu.Unlock()
	return m.pipeline.outgoing[handling{m.ID, e.Queue}]
}

// RetriedAfter asserts that an attempt fails and that the message has its next one after a delay. The
// event has the error (Failure) and the attempts so far; an attempt while a service is
// unavailable does not count.
func (m *Message) RetriedAfter(delay time.Duration) schemas.Event {
	m.pipeline.t.Helper()
	e := m.next(schemas.RetryScheduled)
	if e.Delay != delay {
		m.pipeline.t.Fatalf("%s: retried after %s, want %s; its error was: %s", m.ID, e.Delay, delay, e.Failure.Message)
	}
	return e
}

// Poisoned asserts that the message is given up. The event has the last error (Failure).
func (m *Message) Poisoned() schemas.Event {
	m.pipeline.t.Helper()
	return m.next(schemas.Poisoned)
}

// next waits for the next step of the message.
func (m *Message) next(want schemas.Action) schemas.Event {
	p := m.pipeline
	p.t.Helper()
	what := fmt.Sprintf("%s, %s", cmp.Or(m.ID, "a message"), want)
	e, at := p.wait(what, m.seen, m.delay+patience, func(e schemas.Event) bool {
		return e.Envelope.Properties.MessageID == m.ID && (m.queue == "" || e.Queue == m.queue)
	})
	if e.Action != want {
		p.t.Fatalf("%s: it is %s instead; there were\n%s", what, e.Action, p)
	}
	m.seen, m.delay = at+1, e.Delay
	return e
}

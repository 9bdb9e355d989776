package rabbit

import (
	"container/list"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// window is what is on its way on one channel: the messages that were sent and
// have no outcome yet. Only the publisher's owner sends; outcomes arrive on one
// goroutine a message.
type window struct {
	publisher *Publisher
	ch        *amqp.Channel
	conn      *amqp.Connection

	closed <-chan *amqp.Error // the owner's, as the next two
	ended  bool               // closed has been read
	reason *amqp.Error        // what it said

	mu sync.Mutex // guards what follows
	// The broker's returns, never more than there are messages on their way.
	// A return reaches the client before the confirm of the same message, on the
	// same reader: whoever holds a confirm and drains this finds it.
	returns <-chan amqp.Return
	sent    list.List // of *inflight, oldest first
}

// inflight is one message in one window. It is in the list until it has an
// outcome or is left to the next window.
type inflight struct {
	*Pending
	element  *list.Element
	confirm  *amqp.DeferredConfirmation // nil if the channel was lost while sending
	returned *UnroutableError
}

func (p *Publisher) newWindow() (*window, error) {
	w := &window{publisher: p}
	ch, conn, err := p.conn.open(p.ctx, func(ch *amqp.Channel) error {
		w.closed = ch.NotifyClose(make(chan *amqp.Error, 1))
		w.returns = ch.NotifyReturn(make(chan amqp.Return, p.cfg.Window))
		return ch.Confirm(false)
	})
	w.ch, w.conn = ch, conn
	return w, err
}

// send puts the message on the wire. Its outcome comes with its confirm, or from
// collect if the channel is lost first.
func (w *window) send(m *Pending) *inflight {
	entry := &inflight{Pending: m}
	w.mu.Lock()
	entry.element = w.sent.PushBack(entry)
	w.mu.Unlock() // not held while writing: a slow broker must not keep confirms waiting
	confirm, err := w.ch.PublishWithDeferredConfirm(
		m.message.Exchange, m.message.RoutingKey, !m.message.Optional, false, m.message.Publishing)
	if err == nil {
		entry.confirm = confirm
	}
	return entry
}

// settle takes the outcome of a message whose confirm has come; false if there
// is none, because the channel was lost.
func (w *window) settle(entry *inflight) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if entry.element == nil {
		return true // collect came first
	}
	w.match()
	switch {
	case w.known(entry):
		return true
	case w.ch.IsClosed():
		return false // the confirm stands for the loss of the channel
	}
	w.finish(entry, &NackedError{Exchange: entry.message.Exchange, RoutingKey: entry.message.RoutingKey})
	return true
}

// known finishes a message that was returned or confirmed. The caller holds mu.
func (w *window) known(entry *inflight) bool {
	switch {
	case entry.returned != nil:
		w.finish(entry, entry.returned)
	case entry.confirm != nil && entry.confirm.Acked():
		w.finish(entry, nil)
	default:
		return false
	}
	return true
}

func (w *window) finish(entry *inflight, err error) {
	w.remove(entry)
	w.publisher.finish(entry.Pending, err)
}

func (w *window) remove(entry *inflight) {
	w.sent.Remove(entry.element)
	entry.element = nil
}

// collect takes what has no outcome now that the channel is gone, oldest first.
func (w *window) collect() []*Pending {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.match()
	var lost []*Pending
	for element := w.sent.Front(); element != nil; {
		entry := element.Value.(*inflight)
		element = element.Next()
		if !w.known(entry) {
			w.remove(entry)
			lost = append(lost, entry.Pending)
		}
	}
	return lost
}

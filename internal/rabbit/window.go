package rabbit

import (
	"runtime"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// sweepAfter is how long a received confirm waits for an older, missing one. Queues
// differ in speed, and a stalled queue must not delay the messages of others.
const sweepAfter = 5 * time.Millisecond

// window holds the messages of one channel that were sent and have no outcome yet.
// Only the publisher's run goroutine uses it.
type window struct {
	publisher *Publisher
	ch        *amqp.Channel
	conn      *link
	corked    bool // the stream is corked, while there is more to send

	closed <-chan *amqp.Error
	ended  bool        // the channel is lost
	reason *amqp.Error // received from closed

	// The broker's returns, at most as many as unconfirmed messages: a window of them,
	// and one of those given up. A return is received before the confirm of the same
	// message, by the same reader: after a confirm, its return is already in this
	// channel.
	returns <-chan amqp.Return

	suspect *Pending   // sent alone, not yet processed by the broker
	resends []*Pending // to send again, alone

	headers  encodedHeaders
	sent     sentMessages
	refusals refusals
	timer    *time.Timer
}

func (p *Publisher) newWindow() (*window, error) {
	w := &window{publisher: p, timer: time.NewTimer(time.Hour), headers: encodedHeaders{table: amqp.Table{}}}
	ch, conn, err := p.conn.open(p.ctx, func(_ *link, ch *amqp.Channel) error {
		w.closed = ch.NotifyClose(make(chan *amqp.Error, 1))
		w.returns = ch.NotifyReturn(make(chan amqp.Return, 2*p.cfg.Window))
		return ch.Confirm(false)
	})
	w.ch, w.conn = ch, conn
	return w, err
}

// publish publishes the message, unless its context has ended or it exceeds the
// connection's frame-max.
func (w *window) publish(m *Pending) {
	if !m.move(waiting, sending) {
		return
	}
	if m.ctx.Err() != nil {
		w.publisher.finish(m, m.notConfirmedError(m.ctx))
		return
	}
	publishing, encoded := w.headers.encode(m.message.Publishing)
	if err := m.message.checkSize(encoded, w.conn.Config.FrameSize); err != nil {
		w.publisher.finish(m, err)
		return
	}
	m.removed, m.returned, m.ambiguous = false, nil, false
	w.cork()
	if w.sent.oldest() == nil {
		w.publisher.silence.begin()
	}
	w.sent.add(m, cap(w.publisher.slots))
	var err error
	m.confirm, err = w.ch.PublishWithDeferredConfirm(
		m.message.Exchange, m.message.RoutingKey, !m.message.Optional, false, publishing)
	switch {
	case err == nil:
		return
	case !w.conn.explains(err): // not refused by Message.check
		w.finish(m, m.message.refused(codeSyntax, err.Error()))
		return
	}
	m.confirm = nil
	w.uncork()
	w.end(<-w.closed)
}

func (w *window) cork() {
	if !w.corked {
		w.conn.stream.Cork()
	}
	w.corked = true
}

func (w *window) uncork() {
	if w.corked {
		w.conn.stream.Uncork()
	}
	w.corked = false
}

func (w *window) end(reason *amqp.Error) {
	w.ended, w.reason = true, reason
}

// wait waits for the next event: a message to send, which it returns, a confirm, a
// change of the connection, or the end of the channel. A nil submit never delivers.
func (w *window) wait(submit <-chan *Pending, changed <-chan struct{}) *Pending {
	if m := w.next(submit); m != nil {
		return m
	}
	w.uncork()
	var confirmed <-chan struct{}
	oldest := w.sent.oldest()
	if oldest != nil {
		confirmed = oldest.confirm.Done()
		w.timer.Reset(sweepAfter)
	} else {
		w.timer.Stop()
	}
	if !w.conn.left.Load() && (oldest == nil || !oldest.resent) {
		w.publisher.silence.rest()
	}
	select {
	case m := <-submit:
		return m
	case <-confirmed:
	case <-w.timer.C:
		w.finishKnown(true)
		if w.sent.oldest() != nil {
			w.publisher.silence.leave(w.publisher.conn, w.conn)
		}
	case <-changed:
	case reason := <-w.closed:
		w.end(reason)
	case <-w.publisher.ctx.Done():
	}
	return nil
}

// next returns a submitted message, nil if none exists.
func (w *window) next(submit <-chan *Pending) *Pending {
	if w.corked && len(submit) == 0 {
		runtime.Gosched() // let other goroutines submit one
	}
	select {
	case m := <-submit:
		return m
	default:
		return nil
	}
}

// finishKnown finishes messages whose outcome is known: the oldest up to the first
// without outcome, or with all every one.
func (w *window) finishKnown(all bool) {
	for m := w.sent.oldest(); m != nil && w.finishIfKnown(m); m = w.sent.oldest() {
	}
	if !all {
		return
	}
	for _, m := range w.sent.rest() {
		if !m.removed {
			w.finishIfKnown(m)
		}
	}
}

// finishIfKnown finishes a message whose outcome is known; false if it is not.
func (w *window) finishIfKnown(m *Pending) bool {
	select {
	case <-m.confirm.Done():
	default:
		return false
	}
	w.matchReturns()
	switch {
	case w.finishIfCertain(m):
	case m.ambiguous:
		w.sendAgain(m)
	case w.ch.IsClosed():
		return false // the client library resolves confirms when the channel is lost
	default:
		w.refusals.add()
		w.finish(m, &NackedError{Exchange: m.message.Exchange, RoutingKey: m.message.RoutingKey})
	}
	return true
}

// finishIfCertain finishes a message that was certainly returned, or certainly routed and
// confirmed; false for others.
func (w *window) finishIfCertain(m *Pending) bool {
	switch {
	case m.returned != nil:
		w.finish(m, m.returned)
	case !m.ambiguous && m.confirm != nil && m.confirm.Acked():
		w.publisher.silence.end()
		w.finish(m, nil)
	default:
		return false
	}
	return true
}

func (w *window) finish(m *Pending, err error) {
	m.removed = true
	w.publisher.finish(m, err)
}

// sendAgain moves a message from the window to the messages to send again, alone.
func (w *window) sendAgain(m *Pending) {
	w.drop(m)
	w.resends = append(w.resends, m)
}

// drop removes a message from the window without an outcome.
func (w *window) drop(m *Pending) {
	m.removed, m.resent = true, true
	if !m.move(sending, waiting) {
		w.publisher.givenUpUnconfirmed.Add(-1)
	}
}

// collect empties the window after the channel has closed, and returns the messages
// without outcome, oldest first, including those given up.
func (w *window) collect() []*Pending {
	w.matchReturns()
	var lost []*Pending
	for _, m := range w.sent.rest() {
		if !m.removed && !w.finishIfCertain(m) {
			w.drop(m)
			lost = append(lost, m)
		}
	}
	w.sent = sentMessages{}
	return lost
}

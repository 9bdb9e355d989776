package rabbit

import (
	"runtime"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// sweepAfter is how long a confirm waits behind an older one that does not come:
// queues differ in speed, and one that stands still must not hold up the others.
const sweepAfter = 5 * time.Millisecond

// window is what is on its way on one channel: the messages that were sent and
// have no outcome yet. All of it belongs to the publisher's owner.
type window struct {
	publisher *Publisher
	ch        *amqp.Channel
	conn      *link
	holding   bool // of the stream, while there is more to send

	closed <-chan *amqp.Error
	ended  bool        // the channel is lost
	reason *amqp.Error // what closed said

	// The broker's returns, never more than there are messages on their way: a
	// window of them, and one of those given up.
	// A return reaches the client before the confirm of the same message, on the
	// same reader: whoever sees a confirm and drains this finds it.
	returns <-chan amqp.Return

	suspect *Pending   // sent alone, and the broker has not answered to it yet
	again   []*Pending // to be sent again, alone

	sent  []*Pending // oldest first, from head on; settled ones stay until they are the oldest
	head  int
	timer *time.Timer
}

func (p *Publisher) newWindow() (*window, error) {
	w := &window{publisher: p, timer: time.NewTimer(time.Hour)}
	ch, conn, err := p.conn.open(p.ctx, func(ch *amqp.Channel) error {
		w.closed = ch.NotifyClose(make(chan *amqp.Error, 1))
		w.returns = ch.NotifyReturn(make(chan amqp.Return, 2*p.cfg.Window))
		return ch.Confirm(false)
	})
	w.ch, w.conn = ch, conn
	return w, err
}

// start puts the message on the wire, unless it is not to be sent on this channel.
func (w *window) start(m *Pending) {
	if !m.move(waiting, sending) {
		return
	}
	if m.ctx.Err() != nil {
		w.publisher.finish(m, m.abandoned(m.ctx))
		return
	}
	if err := m.message.checkSize(w.conn.Config.FrameSize); err != nil {
		w.publisher.finish(m, err)
		return
	}
	m.settled, m.returned, m.doubtful = false, nil, false
	w.hold()
	w.sent = append(w.sent, m)
	var err error
	m.confirm, err = w.ch.PublishWithDeferredConfirm(
		m.message.Exchange, m.message.RoutingKey, !m.message.Optional, false, m.message.Publishing)
	switch {
	case err == nil:
		return
	case !w.conn.explains(err): // check should have refused it
		w.finish(m, m.message.refused(codeSyntax, err.Error()))
		return
	}
	m.confirm = nil
	w.release()
	w.end(<-w.closed)
}

func (w *window) hold() {
	if !w.holding {
		w.conn.stream.out.hold()
	}
	w.holding = true
}

func (w *window) release() {
	if w.holding {
		w.conn.stream.out.release()
	}
	w.holding = false
}

func (w *window) end(reason *amqp.Error) {
	w.ended, w.reason = true, reason
}

// wait waits for something to do: a message to send, which it returns, a confirm,
// a change of the connection, the end. A nil submit is not waited for.
func (w *window) wait(submit <-chan *Pending, changed <-chan struct{}) *Pending {
	if m := w.next(submit); m != nil {
		return m
	}
	w.release()
	var confirmed <-chan struct{}
	if oldest := w.oldest(); oldest != nil {
		confirmed = oldest.confirm.Done()
		w.timer.Reset(sweepAfter)
	} else {
		w.timer.Stop()
	}
	select {
	case m := <-submit:
		return m
	case <-confirmed:
	case <-w.timer.C:
		w.settle(true)
	case <-changed:
	case reason := <-w.closed:
		w.end(reason)
	case <-w.publisher.ctx.Done():
	}
	return nil
}

// next is a message that is there to be sent, nil if there is none.
func (w *window) next(submit <-chan *Pending) *Pending {
	if w.holding && len(submit) == 0 {
		runtime.Gosched() // callers that can submit one now, do
	}
	select {
	case m := <-submit:
		return m
	default:
		return nil
	}
}

// oldest is the first message that has no outcome, nil if all have.
func (w *window) oldest() *Pending {
	for ; w.head < len(w.sent); w.head++ {
		if m := w.sent[w.head]; !m.settled {
			w.compact()
			return m
		}
		w.sent[w.head] = nil
	}
	w.sent, w.head = w.sent[:0], 0
	return nil
}

// compact keeps the queue as long as the window, and not as all that was ever sent.
func (w *window) compact() {
	if w.head > cap(w.publisher.slots) {
		w.sent = w.sent[:copy(w.sent, w.sent[w.head:])]
		w.head = 0
	}
}

// settle takes the outcomes that have come: those of the oldest messages, or of all.
func (w *window) settle(all bool) {
	for m := w.oldest(); m != nil && w.outcome(m); m = w.oldest() {
	}
	if !all {
		return
	}
	for _, m := range w.sent[w.head:] {
		if !m.settled {
			w.outcome(m)
		}
	}
}

// outcome finishes a message that has an outcome; false if it has none yet.
func (w *window) outcome(m *Pending) bool {
	select {
	case <-m.confirm.Done():
	default:
		return false
	}
	w.match()
	switch {
	case w.known(m):
	case m.doubtful:
		w.sendAgain(m)
	case w.ch.IsClosed():
		return false // the confirm stands for the loss of the channel
	default:
		w.finish(m, &NackedError{Exchange: m.message.Exchange, RoutingKey: m.message.RoutingKey})
	}
	return true
}

// known finishes a message that was certainly returned, or certainly routed and confirmed.
func (w *window) known(m *Pending) bool {
	switch {
	case m.returned != nil:
		w.finish(m, m.returned)
	case !m.doubtful && m.confirm != nil && m.confirm.Acked():
		w.finish(m, nil)
	default:
		return false
	}
	return true
}

func (w *window) finish(m *Pending, err error) {
	m.settled = true
	w.publisher.finish(m, err)
}

// sendAgain takes a message out of the window, to be sent alone.
func (w *window) sendAgain(m *Pending) {
	w.drop(m)
	w.again = append(w.again, m)
}

// drop takes a message out of the window without an outcome.
func (w *window) drop(m *Pending) {
	m.settled = true
	if !m.move(sending, waiting) {
		w.publisher.stray.Add(-1)
	}
}

// collect takes what has no outcome now that the channel is gone, oldest first,
// what was given up included.
func (w *window) collect() []*Pending {
	w.match()
	var lost []*Pending
	for _, m := range w.sent[w.head:] {
		if !m.settled && !w.known(m) {
			w.drop(m)
			lost = append(lost, m)
		}
	}
	w.sent, w.head = nil, 0
	return lost
}

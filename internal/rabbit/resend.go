package rabbit

import (
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"
)

// backlog is what a lost channel leaves to its successor.
type backlog struct {
	messages []*Pending // oldest first

	// alone: the broker closed the channel or the connection because of one of
	// these. They are sent one at a time, so that it is seen which.
	alone bool
}

// maxStrikes is how often a message that is on its way alone may go with the
// whole connection before it is taken for the cause.
const maxStrikes = 3

// run is the publisher's owner: one channel after another until Close.
func (p *Publisher) run() {
	defer p.stop()
	var left backlog
	for failures := 0; p.ctx.Err() == nil; {
		w, err := p.newWindow()
		if errors.Is(err, ErrClosed) {
			break
		}
		if err != nil {
			failures++
			p.conn.cfg.Backoff.wait(p.ctx, failures)
			continue
		}
		failures = 0
		p.using.Store(w.conn)
		left = w.serve(left)
	}
	for _, m := range left.messages {
		p.finish(m, ErrClosed)
	}
}

// serve sends what was left, then what is submitted, until the channel is lost
// or the publisher is stopped, and returns what has no outcome.
func (w *window) serve(left backlog) backlog {
	p := w.publisher
	left, ok := w.resend(left)
	for ok {
		select {
		case m := <-p.submit:
			ok = w.start(m)
		case w.reason = <-w.closed:
			w.ended, ok = true, false
		case <-p.ctx.Done():
			ok = false
		}
	}
	if p.ctx.Err() != nil {
		p.conn.closeChannel(w.ch)
	}
	culpable := blames(w.why())
	return backlog{
		messages: append(w.collect(), left.messages...),
		alone:    left.alone || culpable,
	}
}

// resend sends what the last channel left; false if this one is lost as well.
func (w *window) resend(left backlog) (backlog, bool) {
	for len(left.messages) > 0 {
		m := left.messages[0]
		left.messages = left.messages[1:]
		if !left.alone {
			if !w.start(m) {
				return left, false
			}
		} else if !w.startAlone(m) {
			left.messages = append(w.judge(), left.messages...)
			return left, false
		}
	}
	return backlog{}, w.publisher.ctx.Err() == nil
}

// start sends a message and leaves a goroutine to its confirm; false if the channel is lost.
func (w *window) start(m *Pending) bool {
	if !w.admit(m) {
		return true
	}
	entry := w.send(m)
	if entry.confirm == nil {
		return false
	}
	w.publisher.work.Go(func() {
		<-entry.confirm.Done()
		w.settle(entry)
	})
	return true
}

// startAlone sends a message and waits for its confirm; false if the channel is lost.
func (w *window) startAlone(m *Pending) bool {
	if !w.admit(m) {
		return true
	}
	entry := w.send(m)
	if entry.confirm == nil {
		return false
	}
	select {
	case <-entry.confirm.Done():
		return w.settle(entry)
	case <-w.publisher.ctx.Done():
		return false
	}
}

// admit finishes a message that is not to be sent on this channel.
func (w *window) admit(m *Pending) bool {
	p := w.publisher
	// Without an error where the connection is lost meanwhile, which shows at once.
	_ = p.conn.awaitUnblocked(p.ctx)
	if m.ctx.Err() != nil {
		p.finish(m, m.abandoned(m.ctx))
		return false
	}
	if err := m.message.checkSize(w.conn.Config.FrameSize); err != nil {
		p.finish(m, err)
		return false
	}
	return true
}

// why waits for the reason of the channel's end, which is near.
func (w *window) why() *amqp.Error {
	if !w.ended {
		w.reason = <-w.closed
		w.ended = true
	}
	return w.reason
}

// blames says whether the broker ended the channel for what was sent on it.
// 320 CONNECTION_FORCED is an operator, or a broker that shuts down.
func blames(reason *amqp.Error) bool {
	return reason != nil && reason.Server && reason.Code != amqp.ConnectionForced
}

// judge decides about the message that was on its way alone when the channel
// ended: refused, or to be sent again.
func (w *window) judge() []*Pending {
	if w.publisher.ctx.Err() != nil {
		return nil // still in the window, where serve collects it
	}
	reason, suspects := w.why(), w.collect()
	if len(suspects) == 0 || !blames(reason) {
		return suspects
	}
	m := suspects[0]
	m.strikes++
	// A soft error (AMQP 0-9-1 §1.2) is about this one operation; others may have causes of their own.
	if reason.Recover || m.strikes >= maxStrikes {
		w.publisher.finish(m, m.message.refused(reason.Code, reason.Reason))
		return nil
	}
	return suspects
}

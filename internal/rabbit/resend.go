package rabbit

import (
	"errors"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// backlog are messages to be sent before new ones.
type backlog struct {
	messages []*Pending // oldest first

	// alone: the broker returned one of these, or closed the channel or the
	// connection because of one. They are sent one at a time, so that it is seen which.
	alone bool
}

func (b *backlog) pop() *Pending {
	m := b.messages[0]
	b.messages = b.messages[1:]
	return m
}

// sendAlone puts messages in front.
func (b *backlog) sendAlone(messages []*Pending) {
	if len(messages) > 0 {
		b.messages, b.alone = append(messages, b.messages...), true
	}
}

// maxStrikes is how often a message that is on its way alone may go with the
// whole connection before it is taken for the cause.
const maxStrikes = 3

// run is the publisher's owner: one channel after another until Close.
func (p *Publisher) run() {
	defer close(p.dead)
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
		if m.move(waiting, sending) {
			p.finish(m, ErrClosed)
		}
	}
}

// serve sends what was left, then what is submitted, until the channel is lost or
// to be opened again, or the publisher is stopped, and returns what has no outcome.
func (w *window) serve(left backlog) backlog {
	p := w.publisher
	for !w.ended && p.ctx.Err() == nil {
		w.settle(false)
		left.sendAlone(w.takeAgain())
		blocked, changed := p.conn.blocking()
		switch {
		case blocked:
			w.wait(nil, changed)
		case p.overrun():
			p.conn.log.Warn("messages were not confirmed before their callers gave them up; publishing on another channel",
				"messages", p.stray.Load())
			return w.retire(left)
		case len(left.messages) == 0:
			left.alone = false
			// Not started here: the connection may have been blocked meanwhile.
			if m := w.wait(p.submit, changed); m != nil {
				left.messages = append(left.messages, m)
			}
		case left.alone:
			if w.answered() {
				w.startAlone(left.pop())
			}
		default:
			w.start(left.pop())
		}
	}
	return w.retire(left)
}

// startAlone sends a message after all that was sent before is answered. The broker
// answers the methods of a channel in their order: what it returns, or ends the
// channel for, before it answers again is this message. Confirms do not matter, so
// that a queue which gives none holds up nobody.
func (w *window) startAlone(m *Pending) {
	w.suspect = m
	w.start(m)
	if w.answered() {
		w.suspect = nil
	}
}

// answered waits until the broker has answered to all that was sent but for its
// confirms; false where the channel ends before.
func (w *window) answered() bool {
	if w.ended {
		return false
	}
	w.release()
	if err := w.ch.Qos(0, 0, false); err != nil { // has an answer, and no effect without consumers
		w.awaitEnd()
		return false
	}
	w.match()
	return true
}

// retire leaves the channel and adds what has no outcome to what is left.
func (w *window) retire(left backlog) backlog {
	w.leave()
	lost := w.judge(w.collect())
	left.messages = append(lost, left.messages...)
	left.alone = left.alone || blames(w.reason)
	left.sendAlone(w.takeAgain())
	return left
}

// leave closes the channel if it is not lost, and the connection where the broker does
// not answer to that. The end of a channel is the end of its confirms, which collect
// relies on.
func (w *window) leave() {
	w.timer.Stop()
	w.release()
	if w.ended {
		return
	}
	unanswered := time.AfterFunc(closeTimeout, w.conn.abort)
	defer unanswered.Stop()
	w.publisher.conn.closeChannel(w.ch)
	w.end(<-w.closed)
}

// awaitEnd waits for the reason of a channel's end that is certain.
func (w *window) awaitEnd() {
	select {
	case reason := <-w.closed:
		w.end(reason)
	case <-w.publisher.ctx.Done():
	}
}

func (w *window) takeAgain() []*Pending {
	again := w.again
	w.again = nil
	return again
}

// blames says whether the broker ended the channel for what was sent on it.
// 320 CONNECTION_FORCED is an operator, or a broker that shuts down.
func blames(reason *amqp.Error) bool {
	return reason != nil && reason.Server && reason.Code != amqp.ConnectionForced
}

// judge refuses the message for which the broker ended the channel, where it is
// certain which that is.
func (w *window) judge(lost []*Pending) []*Pending {
	m := w.culprit(lost)
	if m == nil || !blames(w.reason) {
		return lost
	}
	m.strikes++
	// A soft error (AMQP 0-9-1 §1.2) is about this one operation; others may have causes of their own.
	if !w.reason.Recover && m.strikes < maxStrikes {
		return lost
	}
	if m.move(waiting, sending) {
		w.finish(m, m.message.refused(w.reason.Code, w.reason.Reason))
	}
	return slices.DeleteFunc(lost, func(other *Pending) bool { return other == m })
}

// culprit is the one message that the broker had not answered to, nil where there are several.
func (w *window) culprit(lost []*Pending) *Pending {
	if w.suspect != nil && slices.Contains(lost, w.suspect) {
		return w.suspect
	}
	if len(lost) == 1 {
		return lost[0]
	}
	return nil
}

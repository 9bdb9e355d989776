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

func (b *backlog) pop() *Pending {
	m := b.messages[0]
	b.messages = b.messages[1:]
	return m
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
		if m.take(sending) {
			p.finish(m, ErrClosed)
		}
	}
}

// serve sends what was left, then what is submitted, until the channel is lost
// or the publisher is stopped, and returns what has no outcome.
func (w *window) serve(left backlog) backlog {
	p := w.publisher
	for !w.ended && p.ctx.Err() == nil {
		w.settle(false)
		blocked, changed := p.conn.blocking()
		switch {
		case blocked, left.alone && w.oldest() != nil:
			w.wait(nil, changed)
		case len(left.messages) > 0:
			w.start(left.pop())
		default:
			left.alone = false
			// Not started here: the connection may have been blocked meanwhile.
			if m := w.wait(p.submit, changed); m != nil {
				left.messages = append(left.messages, m)
			}
		}
	}
	w.leave()
	suspects := w.judge(w.collect())
	return backlog{
		messages: append(suspects, left.messages...),
		alone:    left.alone || blames(w.reason),
	}
}

// leave closes the channel if it is not lost. The end of a channel is the end of
// its confirms, which collect relies on.
func (w *window) leave() {
	w.timer.Stop()
	w.release()
	if !w.ended {
		w.publisher.conn.closeChannel(w.ch)
		w.end(<-w.closed)
	}
}

// blames says whether the broker ended the channel for what was sent on it.
// 320 CONNECTION_FORCED is an operator, or a broker that shuts down.
func blames(reason *amqp.Error) bool {
	return reason != nil && reason.Server && reason.Code != amqp.ConnectionForced
}

// judge refuses the message for which the broker ended the channel, if it was
// the only one on its way.
func (w *window) judge(suspects []*Pending) []*Pending {
	if len(suspects) != 1 || !blames(w.reason) {
		return suspects
	}
	m := suspects[0]
	m.strikes++
	// A soft error (AMQP 0-9-1 §1.2) is about this one operation; others may have causes of their own.
	if w.reason.Recover || m.strikes >= maxStrikes {
		if m.take(sending) {
			w.finish(m, m.message.refused(w.reason.Code, w.reason.Reason))
		}
		return nil
	}
	return suspects
}

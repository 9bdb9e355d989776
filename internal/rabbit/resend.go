package rabbit

import (
	"errors"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// backlog holds the messages to send before new ones.
type backlog struct {
	messages []*Pending // oldest first

	// alone is set when the broker returned one of these messages, or closed the
	// channel or connection because of one. They are sent one at a time to find out
	// which one.
	alone bool
}

func (b *backlog) pop() *Pending {
	m := b.messages[0]
	b.messages = b.messages[1:]
	return m
}

// sendAlone prepends messages and sets alone.
func (b *backlog) sendAlone(messages []*Pending) {
	if len(messages) > 0 {
		b.messages, b.alone = append(messages, b.messages...), true
	}
}

// maxClosures is how often the broker may close the connection with one message
// unconfirmed before that message counts as the cause.
const maxClosures = 3

// run opens one channel after another until Close, and is the only goroutine that
// uses them.
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
			_ = p.conn.cfg.Backoff.Wait(p.ctx, failures, 0)
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

// serve sends the backlog, then submitted messages, until the channel is lost or
// needs replacing, or the publisher is stopped. It returns the messages without
// outcome.
func (w *window) serve(left backlog) backlog {
	p := w.publisher
	for !w.ended && p.ctx.Err() == nil {
		w.finishKnown(false)
		left.sendAlone(w.takeResends())
		now := p.conn.status.get()
		switch {
		case now.blocked:
			w.wait(nil, now.changed)
		case p.tooManyGivenUp():
			p.conn.log.Warn("messages were not confirmed before their callers gave them up; publishing on another channel",
				"messages", p.givenUpUnconfirmed.Load())
			return w.close(left)
		case w.refusals.areOld(p.cfg.Refusals) && w.sent.oldest() == nil:
			return w.close(left)
		case w.refusals.areOld(p.cfg.Refusals) && w.refusals.awaitConfirms():
			w.wait(nil, now.changed)
		case len(left.messages) == 0:
			left.alone = false
			// Not started here: the connection may have been blocked during wait.
			if m := w.wait(p.submit, now.changed); m != nil {
				left.messages = append(left.messages, m)
			}
		case left.alone:
			if w.awaitProcessed() {
				w.publishAlone(left.pop())
			}
		default:
			w.publish(left.pop())
		}
	}
	return w.close(left)
}

// publishAlone sends m after the broker has processed all earlier messages. The
// broker processes the methods of a channel in order: a return or channel error
// before the next reply concerns m. It does not wait for confirms, so a queue that
// never confirms does not delay other messages.
func (w *window) publishAlone(m *Pending) {
	w.suspect = m
	w.publish(m)
	if w.awaitProcessed() {
		w.suspect = nil
	}
}

// awaitProcessed waits until the broker has processed all sent messages, confirms
// excepted; false if the channel closes first.
func (w *window) awaitProcessed() bool {
	if w.ended {
		return false
	}
	w.uncork()
	if err := w.ch.Qos(0, 0, false); err != nil { // has a reply, and no effect without consumers
		w.awaitEnd()
		return false
	}
	w.matchReturns()
	return true
}

// close closes the channel and prepends the messages without outcome to the
// backlog.
func (w *window) close(left backlog) backlog {
	w.closeChannel()
	lost := w.refuseCulprit(w.collect())
	left.messages = append(lost, left.messages...)
	left.alone = left.alone || blamesMessage(w.reason)
	left.sendAlone(w.takeResends())
	return left
}

// closeChannel closes the channel if it is still open, and the connection if the
// broker does not reply. Closing the channel resolves its confirms, which collect
// requires.
func (w *window) closeChannel() {
	w.timer.Stop()
	w.uncork()
	if w.ended {
		return
	}
	unanswered := time.AfterFunc(closeTimeout, w.conn.abort)
	defer unanswered.Stop()
	w.publisher.conn.closeChannel(w.ch)
	w.end(<-w.closed)
}

// awaitEnd waits for the close reason of a channel that is known to be closing.
func (w *window) awaitEnd() {
	select {
	case reason := <-w.closed:
		w.end(reason)
	case <-w.publisher.ctx.Done():
	}
}

func (w *window) takeResends() []*Pending {
	resends := w.resends
	w.resends = nil
	return resends
}

// blamesMessage reports whether the broker closed the channel or connection because of a
// message. 320 CONNECTION_FORCED has other causes: an operator, or a broker that
// shuts down.
func blamesMessage(reason *amqp.Error) bool {
	return reason != nil && reason.Server && reason.Code != amqp.ConnectionForced
}

// refuseCulprit refuses the message that made the broker close the channel, if it
// is identified, and returns the other messages.
func (w *window) refuseCulprit(lost []*Pending) []*Pending {
	m := w.culprit(lost)
	if m == nil || !blamesMessage(w.reason) {
		return lost
	}
	m.closures++
	// A soft error (AMQP 0-9-1 §1.2) concerns this one operation; a hard error may have
	// another cause.
	if !w.reason.Recover && m.closures < maxClosures {
		return lost
	}
	if m.move(waiting, sending) {
		w.finish(m, m.message.refused(w.reason.Code, w.reason.Reason))
	}
	return slices.DeleteFunc(lost, func(other *Pending) bool { return other == m })
}

// culprit returns the one message that the broker had not processed, nil if there
// are several.
func (w *window) culprit(lost []*Pending) *Pending {
	if w.suspect != nil && slices.Contains(lost, w.suspect) {
		return w.suspect
	}
	if len(lost) == 1 {
		return lost[0]
	}
	return nil
}

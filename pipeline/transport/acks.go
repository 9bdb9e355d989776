package transport

import (
	"runtime"
	"slices"
	"sync"

	"github.com/ThreeDotsLabs/watermill"

	"github.com/watershipmq/watership/internal/rabbit"
)

// acks acknowledges messages that handlers finish in any order, in as few frames as
// possible: all up to the oldest unfinished message in one frame (AMQP 0-9-1 §1.8.3.13,
// multiple), and the finished ones after it one by one, since the oldest may take hours.
// The busier the machine, the more messages are finished while one frame is written.
type acks struct {
	session *rabbit.Session
	log     watermill.LoggerAdapter
	wake    chan struct{} // holds a token while there are tags in waiting
	closed  chan struct{} // closed by close
	running sync.WaitGroup

	sending lock // held while acks and nacks are sent, and before mu

	mu        sync.Mutex // guards the fields below
	unsettled unsettled
	waiting   []uint64 // acked by handlers, not yet sent to the broker
	spare     []uint64 // replaces waiting while that is sent
	written   []func() // to be called once waiting is sent
	ended     bool     // nothing is sent any more
}

func newAcks(session *rabbit.Session, log watermill.LoggerAdapter) *acks {
	a := &acks{
		session: session, log: log,
		wake: make(chan struct{}, 1), closed: make(chan struct{}), sending: make(lock, 1),
	}
	a.running.Go(a.run)
	return a
}

func (a *acks) begin(tag uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unsettled.begin(tag)
}

// unsettledCount returns the number of deliveries that are not acked or nacked.
func (a *acks) unsettledCount() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.unsettled)
}

// unsettledAfter returns the number of deliveries after a tag that the broker takes for unacknowledged,
// while the caller holds sending.
func (a *acks) unsettledAfter(tag uint64) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.unsettled.after(tag)
}

// ack is called once for a tag, and calls written, if it is not nil, once the ack is sent. After
// close it sends nothing: the broker delivers the message again.
func (a *acks) ack(tag uint64, written func()) {
	a.mu.Lock()
	ended := a.ended
	if !ended {
		a.waiting = append(a.waiting, tag)
		if written != nil {
			a.written = append(a.written, written)
		}
	}
	a.mu.Unlock()
	if ended {
		if written != nil {
			written()
		}
		return
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// nack sends a nack at once: its message has waited already.
func (a *acks) nack(tag uint64, requeue bool) error {
	a.sending.lock()
	defer a.sending.unlock()
	err := a.session.Nack(tag, false, requeue)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unsettled.end(tag)
	return err
}

// close returns after all earlier acks were sent.
func (a *acks) close() {
	close(a.closed)
	a.running.Wait()
}

func (a *acks) run() {
	for {
		select {
		case <-a.wake:
			runtime.Gosched() // handlers that can finish now, do
			a.flush(false)
		case <-a.closed:
			a.flush(true)
			return
		}
	}
}

// flush sends the acks of handlers, with last the acks of all.
func (a *acks) flush(last bool) {
	for _, f := range a.send(last) {
		f()
	}
}

// send sends the acks, and returns the functions to be called then.
func (a *acks) send(last bool) (written []func()) {
	a.sending.lock()
	defer a.sending.unlock()
	a.mu.Lock()
	a.ended = last
	written, a.written = a.written, nil
	upTo, single := a.unsettled.collect(a.waiting)
	a.waiting, a.spare = a.spare[:0], a.waiting
	a.mu.Unlock()
	var err error
	if upTo > 0 {
		err = a.session.Ack(upTo, true)
	}
	if err == nil {
		err = a.session.AckEach(single)
	}
	if err != nil { // the session has ended, which was logged when it did
		a.log.Debug("acknowledgements dropped, RabbitMQ delivers the messages again", watermill.LogFields{"reason": err.Error()})
	}
	return written
}

// unsettled are the deliveries of a channel that are being handled, oldest first.
type unsettled []uint64

// begin adds a delivery; tags increase.
func (u *unsettled) begin(tag uint64) { *u = append(*u, tag) }

func (u *unsettled) end(tag uint64) {
	if i, ok := slices.BinarySearch(*u, tag); ok {
		*u = slices.Delete(*u, i, i+1)
	}
}

func (u *unsettled) after(tag uint64) int {
	i, _ := slices.BinarySearch(*u, tag+1)
	return len(*u) - i
}

// collect removes acked tags and returns the acknowledgements to send: all up to a tag,
// 0 for none, and single ones, which it leaves in acked. Each tag is sent once, and no
// other one is included: RabbitMQ closes a channel for a tag that it does not wait for.
func (u *unsettled) collect(acked []uint64) (upTo uint64, single []uint64) {
	for _, tag := range acked {
		u.end(tag)
	}
	return upTo, slices.DeleteFunc(acked, func(tag uint64) bool {
		before := len(*u) == 0 || tag < (*u)[0]
		if before {
			upTo = max(upTo, tag)
		}
		return before
	})
}

// lock is a mutex that is held while the broker answers. Its goroutines wait for a channel, so that
// the time of a synctest bubble, in which they may be, goes on. Its capacity is 1.
type lock chan struct{}

func (l lock) lock()   { l <- struct{}{} }
func (l lock) unlock() { <-l }

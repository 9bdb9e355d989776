package transport

import (
	"runtime"
	"slices"
	"sync"

	"github.com/ThreeDotsLabs/watermill"

	"github.com/watershipmq/watership/internal/rabbit"
)

// acks acknowledges what handlers finish in any order, in as few frames as it can:
// all up to the oldest message still being handled in one (AMQP 0-9-1 §1.8.3.13,
// multiple), and what is finished beyond that one by one, since it may take hours.
// The busier the machine, the more are finished while one frame is written.
type acks struct {
	session *rabbit.Session
	log     watermill.LoggerAdapter
	wake    chan struct{} // holds a token while somebody waits
	closed  chan struct{} // closed by close
	running sync.WaitGroup

	mu        sync.Mutex // guards what follows
	unsettled unsettled
	waiting   []uint64 // acked, and the broker does not know
	spare     []uint64 // for when waiting is being told
}

func newAcks(session *rabbit.Session, log watermill.LoggerAdapter) *acks {
	a := &acks{
		session: session, log: log,
		wake: make(chan struct{}, 1), closed: make(chan struct{}),
	}
	a.running.Go(a.run)
	return a
}

func (a *acks) begin(tag uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unsettled.begin(tag)
}

// ack is called once for a tag. After close it does nothing: the message comes again.
func (a *acks) ack(tag uint64) {
	a.mu.Lock()
	a.waiting = append(a.waiting, tag)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// nack tells the broker at once: a message that goes back has waited already.
func (a *acks) nack(tag uint64, requeue bool) error {
	err := a.session.Nack(tag, false, requeue)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.unsettled.end(tag)
	return err
}

// close returns when the broker was told of all that was acked before.
func (a *acks) close() {
	close(a.closed)
	a.running.Wait()
}

func (a *acks) run() {
	for {
		select {
		case <-a.wake:
			runtime.Gosched() // handlers that can finish now, do
			a.flush()
		case <-a.closed:
			a.flush()
			return
		}
	}
}

func (a *acks) flush() {
	a.mu.Lock()
	upTo, singleActiveConsumer := a.unsettled.collect(a.waiting)
	a.waiting, a.spare = a.spare[:0], a.waiting
	a.mu.Unlock()
	var err error
	if upTo > 0 {
		err = a.session.Ack(upTo, true)
	}
	if err == nil {
		err = a.session.AckEach(singleActiveConsumer)
	}
	if err != nil { // the session has ended, which was logged when it did
		a.log.Debug("acknowledgements dropped, the messages come again", watermill.LogFields{"reason": err.Error()})
	}
}

// unsettled are the deliveries of a channel that are being handled, oldest first.
type unsettled []uint64

// begin adds a delivery; their tags rise.
func (u *unsettled) begin(tag uint64) { *u = append(*u, tag) }

func (u *unsettled) end(tag uint64) {
	if i, ok := slices.BinarySearch(*u, tag); ok {
		*u = slices.Delete(*u, i, i+1)
	}
}

// collect ends what was acked and says what to tell the broker: all up to a tag, 0 for
// none, and single ones, which it leaves in acked. Each tag is told once, and none in
// the name of others: RabbitMQ closes a channel for a tag that it does not wait for.
func (u *unsettled) collect(acked []uint64) (upTo uint64, singleActiveConsumer []uint64) {
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

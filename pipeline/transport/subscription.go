package transport

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline/internal/delivery"
)

// subscription is one consumer of one queue, over all its sessions.
//
// run consumes until stopped; stop ends the receiving; messages that no handler has are
// requeued at once; drain waits for the running handlers; expire stops waiting; then the
// channel is closed, which requeues unacknowledged messages, and finally out.
type subscription struct {
	*Subscriber
	topic       string
	out         chan *message.Message
	nackCounter *nackCounter
	lock        delivery.Lock

	// One slot for each message in flight. A message keeps its slot after the end of its
	// session: with concurrency 1 the next message waits for the handler of a message that
	// was lost with its connection.
	slots    chan struct{}
	handlers sync.WaitGroup

	values  context.Context // of the messages: the values of ctx without its end
	stop    chan struct{}   // closed: receive no more
	expired context.Context // ended: the stop timeout has passed
	expire  context.CancelFunc

	warnOnce sync.Once // about the configured marshaler
}

func newSubscription(s *Subscriber, topic string) *subscription {
	sub := &subscription{
		Subscriber:  s,
		topic:       topic,
		out:         make(chan *message.Message),
		nackCounter: newNackCounter(),
		lock:        s.opts.hooks.NewLock(),
		slots:       make(chan struct{}, s.opts.concurrency),
		stop:        make(chan struct{}),
	}
	sub.expired, sub.expire = context.WithCancel(context.Background())
	return sub
}

// run starts the subscription's goroutines and returns when all have ended.
func (s *subscription) run(ctx context.Context) {
	defer close(s.out)
	s.values = context.WithoutCancel(ctx)
	consuming, cancelConsume := context.WithCancel(s.values)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.consume(consuming)
	}()
	select {
	case <-ctx.Done():
	case <-s.closing:
	case <-ended: // the connection was closed
	}
	close(s.stop)
	s.drain()
	cancelConsume()
	<-ended
	s.handlers.Wait()
}

var errNotYet = errors.New("it has not begun yet")

func (s *subscription) consume(ctx context.Context) {
	s.opts.hooks.OnState(errNotYet)
	defer s.opts.hooks.OnState(nil)
	defer s.lock.Release()
	err := s.conn.Consume(ctx, s.config(), s.session)
	if err != nil && ctx.Err() == nil && !errors.Is(err, rabbit.ErrClosed) {
		s.log.Error("subscription ended", err, watermill.LogFields{"topic": s.topic})
	}
}

func (s *subscription) config() rabbit.ConsumeConfig {
	c := s.cfg.Consume
	return rabbit.ConsumeConfig{
		Queue:     s.cfg.Queue.GenerateName(s.topic),
		Prefetch:  s.newTuner().prefetch,
		Tag:       c.Consumer,
		Exclusive: c.Exclusive,
		NoLocal:   c.NoLocal,
		Args:      c.Arguments,
		Setup:     func(ch *amqp.Channel) error { return s.setup(ch, s.topic) },
		Guard:     s.lock.Acquire,
		Ended:     s.lock.Release,
		Report:    s.opts.hooks.OnState,
	}
}

// newTuner returns the prefetch tuner of a session. The prefetch stays fixed with an offset of
// a stream, where each consumer would begin again, and for an exclusive consumer: a cancelled
// one may find its queue in use.
func (s *subscription) newTuner() *prefetchTuner {
	c := s.cfg.Consume
	bytes := s.opts.maxBytes
	if _, placed := c.Arguments["x-stream-offset"]; c.Exclusive || placed {
		bytes = 0
	}
	return newPrefetchTuner(bytes, max(s.opts.concurrency, c.Qos.PrefetchCount))
}

// session receives messages until the session ends or the subscription is stopped. A
// stopped subscription keeps the channel for the acknowledgements of its handlers;
// messages that no handler has are requeued at once.
func (s *subscription) session(ctx context.Context, session *rabbit.Session) error {
	acks := newAcks(session, s.log.With(watermill.LogFields{"topic": s.topic}))
	defer acks.close()
	in := &receiver{subscription: s, session: session, acks: acks, tuner: s.newTuner()}
	in.run(ctx)
	select {
	case <-s.expired.Done():
	case <-ctx.Done():
	}
	lost := context.Cause(ctx) // context.Canceled: the subscription was stopped
	if !in.restRequeued || lost != nil && !errors.Is(lost, context.Canceled) {
		in.opts.hooks.OnRequeue(in.mostUnacknowledged())
	}
	return nil
}

// acquireSlot waits for a slot; it returns false when the session or the subscription ends.
func (s *subscription) acquireSlot(ctx context.Context) bool {
	if s.stopped() {
		return false
	}
	select {
	case s.slots <- struct{}{}:
		return true
	case <-s.stop:
	case <-ctx.Done():
	}
	return false
}

// tryAcquire takes a slot and room in the budget if there are any.
func (s *subscription) tryAcquire(size int) bool {
	select {
	case s.slots <- struct{}{}:
	default:
		return false
	}
	if !s.budget.tryAcquire(size) {
		s.releaseSlot()
		return false
	}
	return true
}

func (s *subscription) releaseSlot() { <-s.slots }

func (s *subscription) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
	}
}

// drain waits until every slot is free, at most for StopTimeout, then ends the waiting
// for handlers that have not finished.
func (s *subscription) drain() {
	defer s.expire()
	timer := time.NewTimer(s.opts.stopTimeout)
	defer timer.Stop()
	for range s.opts.concurrency {
		select {
		case s.slots <- struct{}{}:
		case <-timer.C:
			s.log.Error("handlers did not finish in time; their messages are requeued",
				errors.New("stop timeout"), watermill.LogFields{"topic": s.topic, "timeout": s.opts.stopTimeout.String()})
			return
		}
	}
}

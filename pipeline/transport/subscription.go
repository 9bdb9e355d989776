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
)

// subscription is one consumer of one queue, over all its sessions.
//
// Its life: run consumes until stopped; stop ends fetching; messages that nobody
// has taken yet go back at once; drain waits for those that are handled; expire
// gives up on the rest; then the channel is closed, which gives back what is
// unsettled, and last of all out.
type subscription struct {
	*Subscriber
	topic       string
	out         chan *message.Message
	nackCounter *nackCounter

	// One place for each message in flight. A place belongs to its message over
	// the end of the session too: at concurrency 1 the next message waits for the
	// handler of one that was lost with its connection.
	slots    chan struct{}
	handlers sync.WaitGroup

	values  context.Context // what messages inherit: values without the end
	stop    chan struct{}   // closed: fetch no more
	expired context.Context // ended: wait for no handler any more
	expire  context.CancelFunc

	warnOnce sync.Once // about the configured marshaler
}

func newSubscription(s *Subscriber, topic string) *subscription {
	sub := &subscription{
		Subscriber:  s,
		topic:       topic,
		out:         make(chan *message.Message),
		nackCounter: newNackCounter(),
		slots:       make(chan struct{}, s.opts.concurrency),
		stop:        make(chan struct{}),
	}
	sub.expired, sub.expire = context.WithCancel(context.Background())
	return sub
}

// run owns the subscription's goroutines and returns when all have ended.
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

func (s *subscription) consume(ctx context.Context) {
	err := s.conn.Consume(ctx, s.config(), s.session)
	if err != nil && ctx.Err() == nil && !errors.Is(err, rabbit.ErrClosed) {
		s.log.Error("subscription ended", err, watermill.LogFields{"topic": s.topic})
	}
}

func (s *subscription) config() rabbit.ConsumeConfig {
	c := s.cfg.Consume
	return rabbit.ConsumeConfig{
		Queue:     s.cfg.Queue.GenerateName(s.topic),
		Prefetch:  s.tuner().prefetch,
		Tag:       c.Consumer,
		Exclusive: c.Exclusive,
		NoLocal:   c.NoLocal,
		Args:      c.Arguments,
		Setup:     func(ch *amqp.Channel) error { return s.setup(ch, s.topic) },
	}
}

// tuner chooses the prefetch of a session. Arguments may say where a consumer begins,
// and an exclusive one that was cancelled may find another in its place.
func (s *subscription) tuner() *prefetchTuner {
	c := s.cfg.Consume
	bytes := s.opts.maxBytes
	if c.Exclusive || len(c.Arguments) > 0 {
		bytes = 0
	}
	return newPrefetchTuner(bytes, max(s.opts.concurrency, c.Qos.PrefetchCount))
}

// session takes messages while the session lives and the subscription is not
// stopped. A stopped one keeps the channel for the acknowledgements of its handlers;
// messages that no handler has go back at once.
func (s *subscription) session(ctx context.Context, session *rabbit.Session) error {
	acks := newAcks(session, s.log.With(watermill.LogFields{"topic": s.topic}))
	defer acks.close()
	in := &receiver{subscription: s, session: session, acks: acks, tuner: s.tuner()}
	in.run(ctx)
	select {
	case <-s.expired.Done():
	case <-ctx.Done():
	}
	return nil
}

// acquireSlot waits for a place; false when the session or the subscription ends.
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

// tryAcquire takes a place and room in the budget if there are any.
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

// drain waits until every place is free, at most for StopTimeout, then ends the
// waiting of all who still wait.
func (s *subscription) drain() {
	defer s.expire()
	timer := time.NewTimer(s.opts.stopTimeout)
	defer timer.Stop()
	for range s.opts.concurrency {
		select {
		case s.slots <- struct{}{}:
		case <-timer.C:
			s.log.Error("handlers did not finish in time; their messages go back to the queue",
				errors.New("stop timeout"), watermill.LogFields{"topic": s.topic, "timeout": s.opts.stopTimeout.String()})
			return
		}
	}
}

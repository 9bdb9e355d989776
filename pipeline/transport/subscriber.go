package transport

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ThreeDotsLabs/watermill"
	wamqp "github.com/ThreeDotsLabs/watermill-amqp/v2/pkg/amqp"
	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

// Subscriber delivers the messages of queues. It may have many subscriptions; each has its
// own channel on the subscriber's connection.
type Subscriber struct {
	cfg    wamqp.Config
	opts   options
	log    watermill.LoggerAdapter
	conn   *rabbit.Connection
	owning bool // conn was opened here
	budget *budget

	mu            sync.Mutex // guards the fields below
	closed        bool
	subscriptions sync.WaitGroup
	closing       chan struct{} // closed by Close
}

var (
	_ message.Subscriber           = (*Subscriber)(nil)
	_ message.SubscribeInitializer = (*Subscriber)(nil)
)

// NewSubscriber returns a subscriber with its own connection. It does not
// wait for the broker: the error concerns the configuration. A nil Marshaler in
// the configuration stands for Marshaler{}, a nil logger for none.
func NewSubscriber(cfg wamqp.Config, logger watermill.LoggerAdapter, opts ...Option) (*Subscriber, error) {
	cfg, err := complete(cfg, wamqp.Config.ValidateSubscriber)
	if err != nil {
		return nil, err
	}
	s := newSubscriber(cfg, logger, opts)
	s.owning = true
	s.conn, err = connect(cfg.Connection, slogger(s.log), s.opts, true)
	return s, err
}

// NewSubscriberWithConnection returns a subscriber on a connection that is shared
// and stays the caller's to close, after the subscriber. cfg.Connection is ignored.
func NewSubscriberWithConnection(
	cfg wamqp.Config, logger watermill.LoggerAdapter, conn *Connection, opts ...Option,
) (*Subscriber, error) {
	cfg, err := complete(cfg, wamqp.Config.ValidateSubscriberWithConnection)
	if err != nil {
		return nil, err
	}
	s := newSubscriber(cfg, logger, opts)
	if s.conn = s.opts.hooks.Connection; s.conn == nil {
		s.conn = conn.conn
	}
	return s, nil
}

func newSubscriber(cfg wamqp.Config, logger watermill.LoggerAdapter, opts []Option) *Subscriber {
	if logger == nil {
		logger = watermill.NopLogger{}
	}
	o := newOptions(opts)
	return &Subscriber{cfg: cfg, opts: o, log: logger, budget: newBudget(o.maxBytes), closing: make(chan struct{})}
}

// Subscribe declares exchange, queue and binding of the configuration and delivers the
// queue's messages until ctx ends or the subscriber is closed; the channel is then
// closed. It waits for the broker as long as ctx allows. Each message must be acked or
// nacked once.
//
// The end of ctx stops the subscription, not its handlers: the context of a message keeps
// the values of ctx, and ends with its ack or nack, with the loss of the channel that
// delivered it (the broker delivers it again), or after StopTimeout.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errors.New("subscriber is closed")
	}
	s.subscriptions.Add(1)
	s.mu.Unlock()
	if err := s.initialize(ctx, topic); err != nil {
		s.subscriptions.Done()
		return nil, err
	}
	sub := newSubscription(s, topic)
	go func() {
		defer s.subscriptions.Done()
		sub.run(ctx)
	}()
	return sub.out, nil
}

// SubscribeInitialize declares exchange, queue and binding of a topic, so that messages
// published from now on stay in the queue for a later Subscribe.
func (s *Subscriber) SubscribeInitialize(topic string) error {
	return s.initialize(context.Background(), topic)
}

func (s *Subscriber) initialize(ctx context.Context, topic string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer callWhenClosed(s.closing, cancel)()
	err := s.conn.Do(ctx, func(ch *amqp.Channel) error { return s.setup(ch, topic) })
	if err != nil {
		return fmt.Errorf("subscribe to %q: %w", topic, err)
	}
	return nil
}

// callWhenClosed calls f when done closes, until the returned function is called.
func callWhenClosed(done <-chan struct{}, f func()) (stop func()) {
	over := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		select {
		case <-done:
			f()
		case <-over:
		}
	})
	return func() {
		close(over)
		wait.Wait()
	}
}

func (s *Subscriber) setup(ch *amqp.Channel, topic string) error {
	queue, exchange := s.cfg.Queue.GenerateName(topic), s.cfg.Exchange.GenerateName(topic)
	if err := s.cfg.TopologyBuilder.BuildTopology(ch, queue, exchange, s.cfg, s.log); err != nil {
		return fmt.Errorf("declare queue %q: %w", queue, err)
	}
	return nil
}

// Close ends every subscription, waits for their handlers as long as StopTimeout
// allows, and closes the connection if it is the subscriber's own.
func (s *Subscriber) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.closing)
	}
	s.mu.Unlock()
	s.subscriptions.Wait()
	if s.owning {
		return s.conn.Close()
	}
	return nil
}

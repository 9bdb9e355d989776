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

// Publisher publishes with confirms. Concurrent calls, and the messages of one
// call, share one channel, many in flight at a time.
type Publisher struct {
	cfg       wamqp.Config
	opts      options
	conn      *rabbit.Connection
	owning    bool // conn was opened here
	publisher *rabbit.Publisher

	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu       sync.Mutex      // guards declared
	declared map[string]bool // topics whose exchange has been declared
}

var _ message.Publisher = (*Publisher)(nil)

// NewPublisher returns a publisher with its own connection. It does not wait
// for the broker: the error concerns the configuration. A nil Marshaler in the
// configuration stands for Marshaler{}, a nil logger for none.
func NewPublisher(cfg wamqp.Config, logger watermill.LoggerAdapter, opts ...Option) (*Publisher, error) {
	cfg, err := complete(cfg, wamqp.Config.ValidatePublisher)
	if err != nil {
		return nil, err
	}
	if logger == nil {
		logger = watermill.NopLogger{}
	}
	o := newOptions(opts)
	conn, err := connect(cfg.Connection, slogger(logger), o, false)
	if err != nil {
		return nil, err
	}
	p := newPublisher(cfg, conn, o)
	p.owning = true
	return p, nil
}

// NewPublisherWithConnection returns a publisher on a connection that is shared
// and stays the caller's to close, after the publisher. cfg.Connection is ignored.
func NewPublisherWithConnection(cfg wamqp.Config, conn *Connection, opts ...Option) (*Publisher, error) {
	cfg, err := complete(cfg, wamqp.Config.ValidatePublisherWithConnection)
	if err != nil {
		return nil, err
	}
	return newPublisher(cfg, conn.conn, newOptions(opts)), nil
}

func newPublisher(cfg wamqp.Config, conn *rabbit.Connection, o options) *Publisher {
	p := &Publisher{
		cfg:       cfg,
		opts:      o,
		conn:      conn,
		publisher: rabbit.NewPublisher(conn, rabbit.PublisherConfig{Window: o.window, StopTimeout: o.stopTimeout}),
		declared:  map[string]bool{},
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Publish publishes the messages in their order and returns when the broker has
// confirmed each. While the broker is unavailable it waits, as long as the context of
// each message and PublishTimeout allow.
//
// The error joins the errors of the messages that failed, each with its UUID; the
// others have been published. errors.As finds an UnroutableError (if
// Config.Publish.Mandatory is set), NackedError or RefusedError in it.
func (p *Publisher) Publish(topic string, messages ...*message.Message) error {
	ctx, cancel := p.deadline()
	defer cancel()
	if err := p.declare(ctx, topic); err != nil {
		return fmt.Errorf("publish to %q: %w", topic, err)
	}
	failed := p.publish(ctx, topic, messages)
	if !failed.exchangeMissing() {
		return failed.err()
	}
	// Deleted since it was declared: once more, for those that failed.
	p.forget(topic)
	if err := p.declare(ctx, topic); err != nil {
		return fmt.Errorf("publish to %q: %w", topic, err)
	}
	return p.publish(ctx, topic, failed.messages()).err()
}

func (p *Publisher) deadline() (context.Context, context.CancelFunc) {
	if p.opts.publishTimeout > 0 {
		return context.WithTimeout(p.ctx, p.opts.publishTimeout)
	}
	return context.WithCancel(p.ctx)
}

// publish sends all messages, then waits for their confirms.
func (p *Publisher) publish(ctx context.Context, topic string, messages []*message.Message) failures {
	exchange, key := p.cfg.Exchange.GenerateName(topic), p.cfg.Publish.GenerateRoutingKey(topic)
	waits := make([]func() error, 0, len(messages))
	for _, msg := range messages {
		waits = append(waits, p.send(ctx, exchange, key, msg))
	}
	var failed failures
	for i, wait := range waits {
		if err := wait(); err != nil {
			failed = append(failed, failure{messages[i], err})
		}
	}
	return failed
}

// send sends one message and returns a function that waits for its confirm.
func (p *Publisher) send(ctx context.Context, exchange, key string, msg *message.Message) (wait func() error) {
	publishing, err := p.cfg.Marshaler.Marshal(msg)
	if err != nil {
		return func() error { return err }
	}
	ctx, release := withEither(ctx, msg.Context())
	pending, err := p.publisher.Send(ctx, rabbit.Message{
		Exchange: exchange, RoutingKey: key, Optional: !p.cfg.Publish.Mandatory, Publishing: publishing,
	})
	return func() error {
		defer release()
		if err != nil {
			return public(err)
		}
		return public(pending.Wait(ctx))
	}
}

// withEither returns a context that ends with either, with the values of the first.
func withEither(a, b context.Context) (context.Context, func()) {
	if b.Done() == nil {
		return a, func() {}
	}
	ctx, cancel := context.WithCancelCause(a)
	stop := context.AfterFunc(b, func() { cancel(context.Cause(b)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// declare declares the topic's exchange, once.
func (p *Publisher) declare(ctx context.Context, topic string) error {
	p.mu.Lock()
	done := p.declared[topic]
	p.mu.Unlock()
	if done || p.cfg.Exchange.GenerateName(topic) == "" {
		return nil
	}
	err := p.conn.Do(ctx, func(ch *amqp.Channel) error { return declareExchange(ch, p.cfg, topic) })
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.declared[topic] = true
	return nil
}

func (p *Publisher) forget(topic string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.declared, topic)
}

// Close waits for the messages in flight, at most for StopTimeout, and closes the
// connection if it is the publisher's own. Publish calls that still wait for the
// broker then end with an error.
func (p *Publisher) Close() error {
	err := p.publisher.Close()
	p.stop()
	if p.owning {
		return errors.Join(err, p.conn.Close())
	}
	return err
}

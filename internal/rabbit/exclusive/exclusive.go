// Package exclusive opens a connection that holds an exclusive queue
// (https://www.rabbitmq.com/docs/queues#exclusive-queues), so that RabbitMQ lets only
// one process do a piece of work.
package exclusive

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/rabbit"
)

var (
	ErrLost   = errors.New("the connection to the broker was lost")
	ErrLocked = errors.New("another connection holds the queue")
)

// Connection holds an exclusive queue, which the broker deletes with the connection. It
// never reconnects: a new connection could publish before it holds the queue, which
// another process may hold by then.
type Connection struct {
	*rabbit.Connection
	broker rabbit.Config // of other connections
	lost   chan struct{} // closed when the connection is lost

	mu    sync.Mutex // guards the fields below
	dials int
	held  bool               // the queue was declared on the connection of the latest dial
	other *rabbit.Connection // nil until Other
}

const (
	deadHolderTimeout = 3 * time.Second        // for the broker to detect that a process has died
	lockInterval      = 100 * time.Millisecond // between attempts to declare a queue
)

// Open waits for the broker until the timeout, and some seconds for the broker to detect
// that the process which held the queue has died. The error is ErrLocked if another
// process holds the queue.
func Open(ctx context.Context, broker rabbit.Config, queue string, timeout time.Duration) (*Connection, error) {
	c := &Connection{broker: broker, lost: make(chan struct{})}
	dial := broker.Dial
	if dial == nil {
		dial = net.Dial
	}
	broker.Dial = func(network, addr string) (net.Conn, error) {
		if err := c.allowDial(); err != nil {
			return nil, err
		}
		return dial(network, addr)
	}
	conn, err := rabbit.Open(broker)
	if err != nil {
		return nil, err
	}
	c.Connection = conn
	waiting, cancel := context.WithTimeoutCause(ctx, timeout, errors.New("the broker does not answer"))
	defer cancel()
	err = c.lock(waiting, deadHolderTimeout, func(ch *amqp.Channel) error { return c.declare(ch, queue) })
	if errors.Is(err, ErrLocked) && ctx.Err() != nil { // the holder may have died
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

// Lost is closed when the connection is lost.
func (c *Connection) Lost() <-chan struct{} { return c.lost }

// Other returns a connection that is closed with this one, for what may end a connection: the
// broker closes the connection of a binding which it cannot make in time.
func (c *Connection) Other() (*rabbit.Connection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.other == nil {
		other, err := rabbit.Open(c.broker)
		if err != nil {
			return nil, err
		}
		c.other = other
	}
	return c.other, nil
}

// Close closes the connection and Other. The queue ends.
func (c *Connection) Close() error {
	c.mu.Lock()
	other := c.other
	c.mu.Unlock()
	err := c.Connection.Close()
	if other != nil {
		err = errors.Join(err, other.Close())
	}
	return err
}

// allowDial refuses to dial after the connection that held the queue.
func (c *Connection) allowDial() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dials++
	if !c.held {
		return nil
	}
	select {
	case <-c.lost:
	default:
		close(c.lost)
	}
	return ErrLost
}

// declare declares the queue and fails if the connection was replaced concurrently: once
// the queue is held, allowDial refuses the next one.
func (c *Connection) declare(ch *amqp.Channel, queue string) error {
	c.mu.Lock()
	dials := c.dials
	c.mu.Unlock()
	if err := declareExclusive(ch, queue); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dials != dials {
		return ErrLost
	}
	c.held = true
	return nil
}

func declareExclusive(ch *amqp.Channel, queue string) error {
	_, err := ch.QueueDeclare(queue, false, false, true, false, nil)
	return err
}

// lock declares an exclusive queue. It returns ErrLocked if another connection holds the
// queue until the wait ends.
func (c *Connection) lock(ctx context.Context, wait time.Duration, declare func(*amqp.Channel) error) error {
	for deadline := time.Now().Add(wait); ; {
		err := c.Do(ctx, declare)
		switch {
		case !isLocked(err):
			return err
		case time.Now().After(deadline):
			return ErrLocked
		}
		if backoff.Sleep(ctx, lockInterval) != nil {
			return ErrLocked
		}
	}
}

func isLocked(err error) bool {
	var refused *amqp.Error
	return errors.As(err, &refused) && refused.Code == amqp.ResourceLocked
}

// Lock declares another exclusive queue on the connection, which unlock deletes. The
// error is ErrLocked if another connection holds the queue until the wait ends.
func (c *Connection) Lock(ctx context.Context, queue string, wait time.Duration) (unlock func(context.Context) error, err error) {
	ctx, stop := c.UntilLost(ctx)
	defer stop()
	err = c.lock(ctx, wait, func(ch *amqp.Channel) error { return declareExclusive(ch, queue) })
	if ctx.Err() != nil && (err == nil || errors.Is(err, ErrLocked)) {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		ctx, stop := c.UntilLost(ctx)
		defer stop()
		return c.Do(ctx, func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete(queue, false, false, false)
			return err
		})
	}, nil
}

// QueueState is rabbit.Connection.QueueState, and ends when the connection is lost.
func (c *Connection) QueueState(ctx context.Context, queue string) (rabbit.QueueState, bool, error) {
	ctx, stop := c.UntilLost(ctx)
	defer stop()
	return c.Connection.QueueState(ctx, queue)
}

// CertainQueueState is rabbit.Connection.CertainQueueState, and ends when the connection is
// lost. It asks on another connection: this one ends when it dials again.
func (c *Connection) CertainQueueState(ctx context.Context, queue string) (state rabbit.QueueState, found bool, err error) {
	ctx, stop := c.UntilLost(ctx)
	defer stop()
	if state, found, err = c.Connection.QueueState(ctx, queue); err != nil || !state.Uncertain {
		return state, found, err
	}
	other, err := c.Other()
	if err != nil {
		return state, false, err
	}
	return other.CertainQueueState(ctx, queue)
}

// UntilLost returns a context that also ends when the connection is lost.
func (c *Connection) UntilLost(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-c.lost:
			cancel(ErrLost)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

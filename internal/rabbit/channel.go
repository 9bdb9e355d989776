package rabbit

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Channel opens a channel. It waits for a live connection until ctx ends; its error
// then includes the reason why there is no connection. The caller closes the
// channel; a lost connection closes it as well.
func (c *Connection) Channel(ctx context.Context) (*amqp.Channel, error) {
	ch, _, err := c.open(ctx, func(*link, *amqp.Channel) error { return nil })
	return ch, err
}

// Do opens a channel, runs f on it and closes it. It waits for a live connection
// until ctx ends. When the connection is lost during f, Do runs f again, so f must
// be idempotent, such as a declaration. Do gives up where f itself ends the
// connection: at once if the client cannot encode a frame, after three times if the
// broker closes the connection. When ctx ends first, Do returns while f still runs,
// until its connection is closed.
func (c *Connection) Do(ctx context.Context, f func(*amqp.Channel) error) error {
	ch, _, err := c.open(ctx, func(_ *link, ch *amqp.Channel) error { return f(ch) })
	if err != nil {
		return err
	}
	c.closeChannel(ch)
	return nil
}

// open opens a channel and calls prepare on it, until ctx ends. It also returns the
// channel's connection.
func (c *Connection) open(ctx context.Context, prepare func(*link, *amqp.Channel) error) (*amqp.Channel, *link, error) {
	for closures := 0; ; {
		conn, changed, err := c.await(ctx)
		if err != nil {
			return nil, nil, err
		}
		ch, err := c.openOn(ctx, conn, prepare)
		if err == nil {
			return ch, conn, nil
		}
		if !conn.lost() || !conn.explains(err) {
			return nil, nil, err
		}
		if broker, refused := reply(err); refused && blamesMessage(broker) {
			if closures++; closures == maxClosures {
				return nil, nil, err
			}
		}
		// The connection was just lost; Connection.run reports it on changed.
		if err := c.awaitChange(ctx, changed); err != nil {
			return nil, nil, err
		}
	}
}

// await returns the live connection, and a channel that closes when the connection
// changes.
func (c *Connection) await(ctx context.Context) (*link, <-chan struct{}, error) {
	for {
		now := c.status.get()
		if now.closed {
			return nil, nil, ErrClosed
		}
		if now.live != nil {
			return now.live, now.changed, nil
		}
		if err := c.awaitChange(ctx, now.changed); err != nil {
			return nil, nil, err
		}
	}
}

// AwaitConnection waits for a live connection with a number greater than after, and returns
// that number. Connections are numbered from 1, each reconnect adds 1. A caller
// that repeats work after each reconnect passes the last number it has seen, at
// first 0.
func (c *Connection) AwaitConnection(ctx context.Context, after int) (int, error) {
	for {
		now := c.status.get()
		switch {
		case now.closed:
			return after, ErrClosed
		case now.live != nil && now.connections > after:
			return now.connections, nil
		}
		if err := c.awaitChange(ctx, now.changed); err != nil {
			return after, err
		}
	}
}

func (c *Connection) awaitChange(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-c.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		if err := c.Err(); err != nil {
			return fmt.Errorf("%w: %w (%w)", ErrNoConnection, context.Cause(ctx), err)
		}
		return context.Cause(ctx)
	}
}

// openOn opens a channel on conn. It bounds the library's calls by ctx: they have
// no timeout, and a broker short of memory reads nothing from a publishing
// connection.
func (c *Connection) openOn(ctx context.Context, conn *link, prepare func(*link, *amqp.Channel) error) (*amqp.Channel, error) {
	type result struct {
		ch  *amqp.Channel
		err error
	}
	opened := make(chan result)
	open := func() {
		ch, err := conn.Channel()
		if err != nil {
			err = fmt.Errorf("open AMQP channel: %w", err)
		} else {
			err = prepare(conn, ch)
		}
		select {
		case opened <- result{ch, err}:
			if err == nil {
				return
			}
		case <-ctx.Done():
		}
		if ch != nil {
			_ = ch.Close()
		}
	}
	if !c.spawn(open) {
		return nil, ErrClosed
	}
	select {
	case r := <-opened:
		return r.ch, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("the broker does not open a channel: %w", context.Cause(ctx))
	}
}

// closeChannel closes the channel and waits for channel.close-ok, which confirms
// that the broker has processed every earlier acknowledgement. It waits at most
// closeTimeout. After Connection.Close the channel is closed already.
func (c *Connection) closeChannel(ch *amqp.Channel) {
	done := make(chan struct{})
	spawned := c.spawn(func() {
		defer close(done)
		_ = ch.Close()
	})
	if !spawned {
		return
	}
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// spawn starts a goroutine that Close waits for; false after Close.
func (c *Connection) spawn(f func()) bool {
	return c.status.unlessClosed(func() { c.work.Go(f) })
}

package rabbit

import (
	"context"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Channel opens a channel. It waits for a live connection as long as ctx allows;
// the error then holds the reason why there is none. The caller closes the
// channel; it ends by itself with the connection that it was opened on.
func (c *Connection) Channel(ctx context.Context) (*amqp.Channel, error) {
	ch, _, err := c.open(ctx, func(*amqp.Channel) error { return nil })
	return ch, err
}

// Do runs f on a channel of its own and closes it. It waits for a live connection
// as long as ctx allows, and runs f again where the connection is lost meanwhile,
// so f is to be something that can be repeated, such as a declaration. It is not
// repeated where f itself ends the connection: by what the client cannot write, at
// once; by what the broker ends it for, after three times. When ctx ends first, Do
// returns and f is left to end with its connection.
func (c *Connection) Do(ctx context.Context, f func(*amqp.Channel) error) error {
	ch, _, err := c.open(ctx, f)
	if err != nil {
		return err
	}
	c.closeChannel(ch)
	return nil
}

// open also tells which connection the channel belongs to, and calls prepare on
// the channel within the same bounds.
func (c *Connection) open(ctx context.Context, prepare func(*amqp.Channel) error) (*amqp.Channel, *link, error) {
	for strikes := 0; ; {
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
		if broker, refused := reply(err); refused && blames(broker) {
			if strikes++; strikes == maxStrikes {
				return nil, nil, err
			}
		}
		// Lost just now: its owner will say so.
		if err := c.pause(ctx, changed); err != nil {
			return nil, nil, err
		}
	}
}

// await returns the live connection, and a channel that closes when it is no longer so.
func (c *Connection) await(ctx context.Context) (*link, <-chan struct{}, error) {
	for {
		c.mu.Lock()
		live, changed, closed := c.live, c.changed, c.closed
		c.mu.Unlock()
		if closed {
			return nil, nil, ErrClosed
		}
		if live != nil {
			return live, changed, nil
		}
		if err := c.pause(ctx, changed); err != nil {
			return nil, nil, err
		}
	}
}

// Life waits for a live connection that is later than the given one, and returns
// which it is: the first is 1, the one that follows its loss 2. Whoever has to do
// something anew after each loss gives the last that it knows, at first 0.
func (c *Connection) Life(ctx context.Context, after int) (int, error) {
	for {
		c.mu.Lock()
		live, lives, changed, closed := c.live, c.lives, c.changed, c.closed
		c.mu.Unlock()
		switch {
		case closed:
			return after, ErrClosed
		case live != nil && lives > after:
			return lives, nil
		}
		if err := c.pause(ctx, changed); err != nil {
			return after, err
		}
	}
}

// blocking says whether the broker takes no messages now, and gives a channel
// that closes when that may have changed.
func (c *Connection) blocking() (bool, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocked, c.changed
}

func (c *Connection) pause(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-c.ctx.Done():
		return ErrClosed
	case <-ctx.Done():
		if err := c.Err(); err != nil {
			return fmt.Errorf("no connection to the broker: %w (%w)", context.Cause(ctx), err)
		}
		return context.Cause(ctx)
	}
}

// openOn bounds the library's own calls, which wait as long as the broker likes:
// one that is short of memory reads nothing from a publishing connection.
func (c *Connection) openOn(ctx context.Context, conn *link, prepare func(*amqp.Channel) error) (*amqp.Channel, error) {
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
			err = prepare(ch)
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

// closeChannel says goodbye, which also makes sure that the broker has taken
// every acknowledgement sent before. A broker that does not answer is not waited
// for; after Close the channel has ended with the connection.
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
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.work.Go(f)
	return true
}

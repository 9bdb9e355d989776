package rabbit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// closeTimeout bounds the farewell to a broker that may not answer any more.
const closeTimeout = 3 * time.Second

// Connection is a connection to a broker that comes back until it is closed.
// One goroutine owns it: it dials, watches, and dials again.
type Connection struct {
	cfg  Config
	log  *slog.Logger
	ctx  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup // the owner, and channels being opened or closed

	mu      sync.Mutex    // guards what follows
	live    *link         // nil while there is none
	lives   int           // how many connections there have been
	lastErr error         // of the last attempt, nil while live
	changed chan struct{} // closed and replaced whenever live or blocked changes
	blocked bool          // the broker reads nothing from us now
	closed  bool

	frameMax int // that was agreed on last
}

// link is one connection of the client, and the stream that it is on.
type link struct {
	*amqp.Connection
	stream *frames
}

// lost says whether the connection is at its end. Where a write fails, the client
// returns the error first and then, in a goroutine of its own, closes itself.
func (l *link) lost() bool { return l.IsClosed() || l.stream.out.failed() }

// explains says whether the loss of the connection may be the cause of an error. It
// is its effect where the client could not write what it was given: the stream is
// well, and the client says nothing of an end.
func (l *link) explains(err error) bool {
	var ended *amqp.Error // also amqp.ErrClosed
	return errors.As(err, &ended) || l.stream.out.failed()
}

// abort closes the byte stream. It ends writes that the peer does not take, which
// the client's own closing waits for.
func (l *link) abort() { _ = l.stream.Conn.Close() }

// Open starts connecting and returns at once. Its error concerns the URL only
// and never shows the password; a broker that is away is dialled for ever.
func Open(cfg Config) (*Connection, error) {
	uri, err := parseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	c := &Connection{
		cfg:     cfg,
		log:     cfg.Logger.With("connection", cfg.Name, "broker", fmt.Sprintf("%s:%d%s", uri.Host, uri.Port, vhostPath(uri.Vhost))),
		ctx:     ctx,
		stop:    stop,
		changed: make(chan struct{}),
	}
	c.work.Go(c.run)
	return c, nil
}

func vhostPath(vhost string) string {
	if vhost == "/" {
		return "/"
	}
	return "/" + vhost
}

// Close ends the connection, with everything opened on it, and waits for its goroutines.
func (c *Connection) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.work.Wait()
	return nil
}

// FrameMax is the size in bytes of the largest frame that the broker takes, as was
// agreed on last; 0 before the first connection, and where there is no limit. With
// LargeFrames it is what the connection itself takes.
func (c *Connection) FrameMax() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frameMax
}

// Err says why there is no connection now: nil while there is one, ErrClosed
// after Close, else the error of the last attempt.
func (c *Connection) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return ErrClosed
	case c.live != nil:
		return nil
	case c.lastErr == nil:
		return errors.New("not connected yet")
	}
	return c.lastErr
}

func (c *Connection) run() {
	defer c.set(nil, ErrClosed)
	failures, reported := 0, false
	for c.ctx.Err() == nil {
		conn, err := dial(c.ctx, c.cfg)
		if err != nil {
			c.set(nil, err)
			if failures++; !reported && c.ctx.Err() == nil {
				c.log.Warn("cannot connect to the broker; trying until it answers", "error", err)
				reported = true
			}
			c.cfg.Backoff.wait(c.ctx, failures)
			continue
		}
		c.log.Info("connected to the broker")
		since := time.Now()
		reason := c.watch(conn)
		if c.ctx.Err() != nil {
			return
		}
		c.log.Warn("connection to the broker lost; connecting again", "error", reason)
		if reported = true; time.Since(since) >= healthyAfter {
			failures = 0
		}
		failures++
		c.cfg.Backoff.wait(c.ctx, failures)
	}
}

// watch shows the connection to its users until it is lost or is to be closed.
func (c *Connection) watch(conn *link) error {
	defer conn.abort()
	// Room for one: the library sends once, and must not wait for us.
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 16))
	c.set(conn, nil)
	for {
		select {
		case <-c.ctx.Done():
			c.set(nil, ErrClosed)
			_ = conn.CloseDeadline(time.Now().Add(closeTimeout))
			return nil
		case b, ok := <-blocked:
			if ok {
				c.setBlocked(b)
			} else {
				blocked = nil
			}
		case reason := <-closed:
			err := lossError(reason)
			c.set(nil, err)
			return err
		}
	}
}

// errConnectionLost marks what the connection's owner has logged already.
var errConnectionLost = errors.New("connection lost")

func lossError(reason *amqp.Error) error {
	switch {
	case reason == nil:
		return errConnectionLost
	case reason.Server:
		return fmt.Errorf("%w: closed by the broker: %w", errConnectionLost, reason)
	}
	return fmt.Errorf("%w: %s", errConnectionLost, reason.Reason)
}

// AwaitBlocked returns once the broker takes no messages, which it says at the first
// publish that it does not take (https://www.rabbitmq.com/docs/connection-blocked).
// It fails where ctx ends before.
func (c *Connection) AwaitBlocked(ctx context.Context) error {
	for {
		blocked, changed := c.blocking()
		if blocked {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *Connection) set(live *link, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live, c.lastErr, c.blocked = live, err, false
	if live != nil {
		c.lives++
		c.frameMax = live.Config.FrameSize
	}
	c.announce()
}

func (c *Connection) setBlocked(b amqp.Blocking) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocked == b.Active {
		return // a second alarm while the first lasts
	}
	c.blocked = b.Active
	c.announce()
	if b.Active {
		c.log.Warn("the broker is short of memory or disk and takes no messages; waiting", "reason", b.Reason)
	} else {
		c.log.Info("the broker takes messages again")
	}
}

// announce wakes everybody who waits for a change. The caller holds mu.
func (c *Connection) announce() {
	close(c.changed)
	c.changed = make(chan struct{})
}

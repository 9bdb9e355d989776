package rabbit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/amqpstream"
)

// closeTimeout bounds closing a connection or channel, since a broker may never
// answer.
const closeTimeout = 3 * time.Second

// Connection is a connection to a broker that reconnects until it is closed. One
// goroutine, run, dials, watches the connection, and dials again.
type Connection struct {
	cfg   Config
	vhost string
	log   *slog.Logger
	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	work  sync.WaitGroup // run, and channels being opened or closed

	status changingStatus
}

// link is one connection of the client library, with its byte stream.
type link struct {
	*amqp.Connection
	stream *amqpstream.Conn
	node   string      // host:port
	others bool        // the broker has other nodes
	left   atomic.Bool // another node is better
}

// lost reports whether the connection is closed or about to be. When a write fails,
// the client returns the error first and closes the connection later, in another
// goroutine.
func (l *link) lost() bool { return l.IsClosed() || l.stream.WriteFailed() }

// explains reports whether err is a consequence of the lost connection. When the
// client cannot encode a value, the error is the cause of the loss instead: it is
// neither a failed write nor an amqp.Error.
func (l *link) explains(err error) bool {
	var ended *amqp.Error // also amqp.ErrClosed
	var write *amqpstream.WriteError
	return errors.As(err, &ended) || errors.As(err, &write)
}

// abort closes the byte stream, which ends writes that the peer does not read. The
// client's own Close would wait for them.
func (l *link) abort() { _ = l.stream.Close() }

// close ends the connection in the order of the protocol, if the broker answers in time.
func (l *link) close() {
	_ = l.CloseDeadline(time.Now().Add(closeTimeout))
	l.abort()
}

// Open returns a connection that New made and Start has started.
func Open(cfg Config) (*Connection, error) {
	c, err := New(cfg)
	if err == nil {
		Start(c)
	}
	return c, err
}

// Start starts connecting and returns at once. An unreachable broker is dialled until Close. It is called once.
func Start(c *Connection) { c.work.Go(c.run) }

// New returns a connection that Start starts. It fails only for an invalid URL, and its error never contains the
// password.
func New(cfg Config) (*Connection, error) {
	uris, _, err := cfg.urls()
	if err != nil {
		return nil, err
	}
	hosts := make([]string, len(uris))
	for i, uri := range uris {
		hosts[i] = fmt.Sprintf("%s:%d", uri.Host, uri.Port)
	}
	vhost := uris[0].Vhost
	cfg = cfg.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	return &Connection{
		cfg:    cfg,
		vhost:  vhost,
		log:    cfg.Logger.With("connection", cfg.Name, "broker", strings.Join(hosts, ",")+vhostPath(vhost)),
		ctx:    ctx,
		stop:   stop,
		status: changingStatus{now: status{changed: make(chan struct{})}},
	}, nil
}

func vhostPath(vhost string) string {
	if vhost == "/" {
		return "/"
	}
	return "/" + vhost
}

// Close closes the connection and all its channels, and waits for its goroutines.
func (c *Connection) Close() error {
	c.status.close()
	c.stop()
	c.work.Wait()
	return nil
}

// FrameMax returns the negotiated frame-max in bytes, the limit of published
// frames; 0 before the first connection and where there is no limit. With
// LargeFrames it is the limit of received frames.
func (c *Connection) FrameMax() int { return c.status.get().frameMax }

// Err returns why there is no connection: nil while connected, ErrClosed after
// Close, else the error of the last attempt.
func (c *Connection) Err() error { return c.status.get().err() }

// IsBlocked reports whether the broker has blocked a connection.
func IsBlocked(c *Connection) bool { return c.status.get().blocked }

func (c *Connection) run() {
	defer c.status.set(nil, ErrClosed)
	failures, reported, left := 0, false, ""
	for c.ctx.Err() == nil {
		conn, err := dial(c.ctx, c.cfg, &c.work, left)
		if err != nil {
			c.status.set(nil, err)
			if failures++; !reported && c.ctx.Err() == nil {
				c.log.Warn("cannot connect to the broker; trying until it answers", "error", err)
				reported = true
			}
			_ = c.cfg.Backoff.Wait(c.ctx, failures, 0)
			continue
		}
		c.log.Info("connected to the broker", "node", conn.node)
		since := time.Now()
		reason := c.watch(conn)
		if left = ""; conn.left.Load() {
			left = conn.node
		}
		if c.ctx.Err() != nil {
			return
		}
		c.log.Warn("connection to the broker lost; connecting again", "error", reason)
		if reported = true; time.Since(since) >= healthyAfter {
			failures = 0
		}
		failures++
		_ = c.cfg.Backoff.Wait(c.ctx, failures, 0)
	}
}

// watch publishes conn in the status until the connection is lost or c is closed, and
// returns the reason of the loss.
func (c *Connection) watch(conn *link) error {
	defer conn.abort()
	// Capacity 1: the library sends one error, and must never block on it.
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	blocked := conn.NotifyBlocked(make(chan amqp.Blocking, 16))
	c.status.set(conn, nil)
	for {
		select {
		case <-c.ctx.Done():
			c.status.set(nil, ErrClosed)
			_ = conn.CloseDeadline(time.Now().Add(closeTimeout))
			return nil
		case b, ok := <-blocked:
			switch {
			case !ok:
				blocked = nil
			case b.Active != c.status.get().blocked: // and not another alarm during the first
				logBlocking(c.log, b)
				c.status.setBlocked(b.Active)
			}
		case reason := <-closed:
			err := lossError(reason)
			c.status.set(nil, err)
			return err
		}
	}
}

// errConnectionLost marks a loss that Connection.run has already logged.
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

// AwaitBlocked returns when the broker has blocked the connection, which RabbitMQ
// does at the first publish during a resource alarm
// (https://www.rabbitmq.com/docs/connection-blocked). It fails if ctx ends first.
func (c *Connection) AwaitBlocked(ctx context.Context) error {
	for {
		now := c.status.get()
		if now.blocked {
			return nil
		}
		select {
		case <-now.changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func logBlocking(to *slog.Logger, b amqp.Blocking) {
	if b.Active {
		to.Warn("the broker is short of memory or disk and takes no messages; waiting", "reason", b.Reason)
	} else {
		to.Info("the broker takes messages again")
	}
}

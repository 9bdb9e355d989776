package rabbit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/amqpstream"
)

// ConsumeConfig holds the settings of a consumer.
type ConsumeConfig struct {
	// Queue is the queue's name. "" is the queue that Setup declared last on its
	// channel, such as one with a server-generated name.
	Queue string

	// Prefetch is the maximum of unacknowledged messages per channel, 1 to 65,535.
	// Zero: no limit, which loads a whole queue into memory.
	Prefetch int

	Tag       string     // consumer tag, "": the client makes one
	Exclusive bool       // exclusive consumer: a classic queue refuses it while it has another; quorum queues do not
	NoLocal   bool       // passed on; RabbitMQ ignores it
	Args      amqp.Table // such as x-stream-offset; with x-priority, which streams refuse: ErrStream

	// Setup runs on the channel of each new session before basic.consume, and declares
	// queues and bindings again after a reconnect. Nil: no setup.
	Setup func(*amqp.Channel) error

	// Guard runs after Setup, and returns once the session may consume. It may declare
	// exclusive queues, which the broker deletes with the connection of the session. When lost
	// is closed, the session is lost, too. Nil: no guard.
	Guard func(ctx context.Context, on *amqp.Connection) (lost <-chan struct{}, err error)

	// Ended runs after each session, once the broker has closed its channel. Nil: nothing.
	Ended func()

	// Report is called with the reason why there is no session, and with nil once there is one.
	// Nil: no calls.
	Report func(err error)
}

// Consume opens a channel, consumes the queue on it and calls each with the
// session:
//
//   - When the session is lost (connection or channel closed, queue deleted,
//     consumer cancelled by the broker), its context and its deliveries end.
//     Regardless of the result of each, Consume opens a new session after a pause
//     and calls each again.
//   - When each returns while its session is live, Consume closes the channel,
//     which requeues unacknowledged messages, and returns the result of each.
//   - When ctx ends, so does the session; Consume returns after each has returned,
//     with the cause of ctx.
//
// A queue that cannot be consumed (missing, used exclusively, rejected by Setup) is
// retried until ctx ends, with growing pauses; the first failure and the recovery
// are logged.
func (c *Connection) Consume(ctx context.Context, q ConsumeConfig, each func(ctx context.Context, s *Session) error) error {
	r := reporter{log: c.log.With("queue", q.Queue)}
	for failures := 0; ; {
		since := time.Now()
		lost, err := c.consumeOnce(ctx, q, &r, each)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if lost == nil || errors.Is(lost, ErrClosed) {
			return errors.Join(lost, err)
		}
		if time.Since(since) >= healthyAfter {
			failures = 0
		}
		failures++
		r.failed(lost)
		q.report(lost)
		_ = c.cfg.Backoff.Wait(ctx, failures, 0)
	}
}

// consumeOnce runs one session. Its first error is why the session was lost, nil if
// it was not; its second error is the result of each.
func (c *Connection) consumeOnce(ctx context.Context, q ConsumeConfig, r *reporter, each func(context.Context, *Session) error) (lost, err error) {
	s, err := c.newSession(ctx, q)
	if err != nil {
		return err, nil
	}
	r.recovered()
	q.report(nil)
	err = each(s.ctx, s)
	lost = s.end()
	if q.Ended != nil {
		q.Ended()
	}
	return lost, err
}

func (q ConsumeConfig) report(err error) {
	if q.Report != nil {
		q.Report(err)
	}
}

// reporter logs the first consumer failure, a queue that became a stream, which a person has to
// mend, and the recovery. It ignores connection losses, which Connection.run logs once for all
// consumers.
type reporter struct {
	log      *slog.Logger
	reported bool
	stream   bool // was reported
}

func (r *reporter) failed(err error) {
	if errors.Is(err, ErrStream) && !r.stream {
		r.log.Error("the queue cannot be consumed; trying again", "error", err)
		r.reported, r.stream = true, true
	}
	if r.reported || errors.Is(err, errConnectionLost) {
		return
	}
	r.reported = true
	r.log.Warn("consumer lost; consuming again as soon as possible", "error", err)
}

func (r *reporter) recovered() {
	if r.reported {
		r.log.Info("consuming again")
	}
	r.reported, r.stream = false, false
}

func (c *Connection) newSession(ctx context.Context, q ConsumeConfig) (*Session, error) {
	s := &Session{conn: c, config: q, over: make(chan struct{}), watched: make(chan struct{})}
	var closed <-chan *amqp.Error
	var cancelled <-chan string
	ch, conn, err := c.open(ctx, func(conn *link, ch *amqp.Channel) error {
		s.stream = conn.stream
		closed = ch.NotifyClose(make(chan *amqp.Error, 1))
		// The broker cancels a consumer at most once; capacity for the client's own cancel
		// too.
		cancelled = ch.NotifyCancel(make(chan string, 2))
		return s.start(ctx, conn, ch, q)
	})
	if err != nil {
		return nil, err
	}
	s.ch = ch
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	if !c.spawn(func() { s.watch(conn, closed, cancelled) }) {
		s.cancel(ErrClosed)
		return nil, ErrClosed
	}
	return s, nil
}

func (s *Session) start(ctx context.Context, on *link, ch *amqp.Channel, q ConsumeConfig) (err error) {
	if q.Setup != nil {
		if err := q.Setup(ch); err != nil {
			return err
		}
	}
	if q.Guard != nil {
		if s.guardLost, err = q.Guard(ctx, on.Connection); err != nil {
			return err
		}
	}
	if s.config.Tag == "" {
		s.config.Tag = consumerTag()
	}
	return s.consume(ch, q)
}

func (s *Session) consume(ch *amqp.Channel, q ConsumeConfig) error {
	if err := ch.Qos(q.Prefetch, 0, false); err != nil {
		return fmt.Errorf("set prefetch %d: %w", q.Prefetch, err)
	}
	lost := ch.NotifyClose(make(chan *amqp.Error, 1))
	consumer := s.stream.Consumer(s.config.Tag, ch)
	s.tag = consumer.Tag
	ended, err := ch.Consume(q.Queue, s.tag, false, q.Exclusive, q.NoLocal, false, q.Args)
	if err != nil {
		consumer.Close()
		if refusesPriority(err) {
			err = ErrStream
		}
		return fmt.Errorf("consume queue %q: %w", q.Queue, err)
	}
	deliveries := make(chan amqp.Delivery, bufferedDeliveries)
	if !s.conn.spawn(func() { deliver(consumer, ended, lost, deliveries) }) {
		consumer.Close()
		return ErrClosed
	}
	s.Deliveries = deliveries
	return nil
}

// bufferedDeliveries lets the goroutine that delivers continue without waiting for the
// receiver of each.
const bufferedDeliveries = 256

// deliver sends the deliveries of a consumer until the broker has ended it, or its channel
// is lost. ended is the consumer's channel of the client library, which closes then and has no
// deliveries.
func deliver(c *amqpstream.Consumer, ended <-chan amqp.Delivery, lost <-chan *amqp.Error, to chan<- amqp.Delivery) {
	defer close(to)
	defer c.Close()
	var taken []amqp.Delivery
	for last := false; !last; {
		select {
		case <-c.Ready():
		case <-ended:
			last = true
		}
		taken = c.Take(taken)
		for _, d := range taken {
			select {
			case to <- d:
			case <-lost:
				return
			}
		}
	}
}

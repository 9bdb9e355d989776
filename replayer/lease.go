package replayer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// BusyError reports that another process runs the job.
type BusyError struct{ ID string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("job %s is run by another process, which holds its queue at the broker: "+
		"wait, or stop it with `watership jobs cancel %[1]s`", e.ID)
}

var errLost = errors.New("the connection to the broker was lost")

// lease is the connection on which a job publishes. It holds the job's exclusive
// queue, which the broker deletes with the connection. It never reconnects: a new
// connection could publish before it holds the queue, which another runner may hold by
// then.
type lease struct {
	conn      *rabbit.Connection
	publisher *rabbit.Publisher
	delivery  DirectDelivery
	lost      chan struct{} // closed when the connection is lost

	mu    sync.Mutex // guards the fields below
	dials int
	held  bool // the queue was declared on the connection of the latest dial
}

const (
	deadRunnerTimeout = 3 * time.Second        // for the broker to detect that a runner has died
	startTimeout      = 30 * time.Second       // for other jobs to start
	lockInterval      = 100 * time.Millisecond // between attempts to declare the queue
	connectTimeout    = 30 * time.Second       // for the broker or the store at the start
	reconnectTimeout  = 5 * time.Minute        // for the broker after a connection was lost
)

// JobQueue returns the name of the exclusive queue that the runner of a job holds.
func JobQueue(topology schemas.Topology, id string) string {
	prefix := topology.Prefix
	if prefix == "" {
		prefix = schemas.DefaultPrefix
	}
	return prefix + ".job." + id
}

// connect waits for the broker, and for the broker to detect a runner that has just
// died. The error is a *BusyError if another runner is alive.
func (r *Replayer) connect(ctx context.Context, id string, wait time.Duration) (*lease, error) {
	l := &lease{lost: make(chan struct{})}
	broker := r.cfg.Broker
	dial := broker.Dial
	if dial == nil {
		dial = net.Dial
	}
	broker.Dial = func(network, addr string) (net.Conn, error) {
		if err := l.allowDial(); err != nil {
			return nil, err
		}
		return dial(network, addr)
	}
	conn, err := rabbit.Open(broker)
	if err != nil {
		return nil, err
	}
	l.conn = conn
	if err := r.acquire(ctx, l, id, wait); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	l.publisher = rabbit.NewPublisher(conn, rabbit.PublisherConfig{Window: maxUnconfirmed})
	l.delivery = r.cfg.DirectDelivery(conn, l.publisher)
	return l, nil
}

// allowDial refuses to dial after the connection that held the queue.
func (l *lease) allowDial() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dials++
	if !l.held {
		return nil
	}
	select {
	case <-l.lost:
	default:
		close(l.lost)
	}
	return errLost
}

func (r *Replayer) acquire(ctx context.Context, l *lease, id string, wait time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, errors.New("the broker does not answer"))
	defer cancel()
	queue := JobQueue(r.cfg.Topology, id)
	held, err := l.lock(ctx, deadRunnerTimeout, func(ch *amqp.Channel) error { return l.declare(ch, queue) })
	switch {
	case err != nil:
		return fmt.Errorf("holding the queue of job %s: %w", id, err)
	case !held:
		return &BusyError{id}
	}
	return nil
}

// lock declares an exclusive queue. It returns false if another connection holds the
// queue until the wait ends.
func (l *lease) lock(ctx context.Context, wait time.Duration, declare func(*amqp.Channel) error) (bool, error) {
	for deadline := time.Now().Add(wait); ; {
		err := l.conn.Do(ctx, declare)
		switch {
		case err == nil:
			return true, nil
		case !isLocked(err):
			return false, err
		case time.Now().After(deadline):
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-time.After(lockInterval):
		}
	}
}

func isLocked(err error) bool {
	var refused *amqp.Error
	return errors.As(err, &refused) && refused.Code == amqp.ResourceLocked
}

// lockStart serializes the start of jobs, so that the second of two jobs with the same
// messages sees the first. release lets the next job start.
func (r *Replayer) lockStart(ctx context.Context, l *lease, id string) (release func(context.Context) error, err error) {
	ctx, stop := l.untilLost(ctx)
	defer stop()
	queue := JobQueue(r.cfg.Topology, "start")
	held, err := l.lock(ctx, startTimeout, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, false, false, true, false, nil)
		return err
	})
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("starting job %s: %w", id, err)
	case !held:
		return nil, fmt.Errorf("starting job %s: another job has been starting for %s and holds the queue %s: try again", id, startTimeout, queue)
	}
	return func(ctx context.Context) error {
		ctx, stop := l.untilLost(ctx)
		defer stop()
		return l.conn.Do(ctx, func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete(queue, false, false, false)
			return err
		})
	}, nil
}

// untilLost returns a context that also ends when the connection is lost.
func (l *lease) untilLost(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-l.lost:
			cancel(errLost)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// isHeld reports whether the exclusive queue of a job exists, which its runner holds.
func (l *lease) isHeld(ctx context.Context, queue string) (bool, error) {
	ctx, stop := l.untilLost(ctx)
	defer stop()
	_, found, err := l.conn.QueueState(ctx, queue)
	return found, err
}

// log returns the state of the queue of events.
func (l *lease) log(ctx context.Context, queue string) (Log, error) {
	ctx, stop := l.untilLost(ctx)
	defer stop()
	log, _, err := l.conn.QueueState(ctx, queue)
	return Log{Events: log.Messages, Consumers: log.Consumers}, err
}

// declare declares the job's queue and fails if the connection was replaced
// concurrently: once the queue is held, allowDial refuses the next one.
func (l *lease) declare(ch *amqp.Channel, queue string) error {
	l.mu.Lock()
	dials := l.dials
	l.mu.Unlock()
	if _, err := ch.QueueDeclare(queue, false, false, true, false, nil); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dials != dials {
		return errLost
	}
	l.held = true
	return nil
}

// Close closes the connection, with which the queue ends. Messages without a confirm
// may have arrived.
func (l *lease) Close() error {
	var left error
	select {
	case <-l.lost: // no confirm can arrive
	default:
		left = l.publisher.Close()
	}
	err := errors.Join(left, l.conn.Close())
	return errors.Join(err, l.publisher.Close())
}

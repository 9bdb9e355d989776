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

// BusyError says that a job is being run by somebody else.
type BusyError struct{ ID string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("job %s is being run by somebody else, who holds its queue at the broker: "+
		"wait, or stop them with `watership jobs cancel %[1]s`", e.ID)
}

var errLost = errors.New("the connection to the broker was lost")

// line is the connection on which a job publishes. It holds the job's exclusive
// queue, which goes with it. It does not come back: a new connection would
// publish before the queue is held again, and somebody else may hold it.
type line struct {
	conn      *rabbit.Connection
	publisher *rabbit.Publisher
	hop       Hop
	lost      chan struct{} // closed when nothing can be sent any more

	mu    sync.Mutex // guards what follows
	dials int
	held  bool // the queue is held, on the connection of the latest dial
}

const (
	dieTime    = 3 * time.Second        // for the broker to notice that a runner has died
	startTime  = 30 * time.Second       // for other jobs to start
	lockPause  = 100 * time.Millisecond // between attempts to hold the queue
	patience   = 30 * time.Second       // with a broker that is away at the beginning
	returnTime = 5 * time.Minute        // for a broker to come back
)

// JobQueue is the exclusive queue that the runner of a job holds.
func JobQueue(topology schemas.Topology, id string) string {
	prefix := topology.Prefix
	if prefix == "" {
		prefix = schemas.DefaultPrefix
	}
	return prefix + ".job." + id
}

// connect waits for the broker, and for a runner that has just died; a live one
// is a *BusyError.
func (r *Replayer) connect(ctx context.Context, id string, wait time.Duration) (*line, error) {
	l := &line{lost: make(chan struct{})}
	broker := r.cfg.Broker
	dial := broker.Dial
	if dial == nil {
		dial = net.Dial
	}
	broker.Dial = func(network, addr string) (net.Conn, error) {
		if err := l.mayDial(); err != nil {
			return nil, err
		}
		return dial(network, addr)
	}
	conn, err := rabbit.Open(broker)
	if err != nil {
		return nil, err
	}
	l.conn = conn
	if err := r.hold(ctx, l, id, wait); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	l.publisher = rabbit.NewPublisher(conn, rabbit.PublisherConfig{Window: inFlight})
	l.hop = r.cfg.Hop(conn, l.publisher)
	return l, nil
}

// mayDial refuses a second connection after the one that held the queue.
func (l *line) mayDial() error {
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

func (r *Replayer) hold(ctx context.Context, l *line, id string, wait time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, wait, errors.New("the broker does not answer"))
	defer cancel()
	queue := JobQueue(r.cfg.Topology, id)
	held, err := l.lock(ctx, dieTime, func(ch *amqp.Channel) error { return l.declare(ch, queue) })
	switch {
	case err != nil:
		return fmt.Errorf("holding the queue of job %s: %w", id, err)
	case !held:
		return &BusyError{id}
	}
	return nil
}

// lock declares an exclusive queue, and says no where another connection has it for
// so long.
func (l *line) lock(ctx context.Context, wait time.Duration, declare func(*amqp.Channel) error) (bool, error) {
	for deadline := time.Now().Add(wait); ; {
		err := l.conn.Do(ctx, declare)
		switch {
		case err == nil:
			return true, nil
		case !locked(err):
			return false, err
		case time.Now().After(deadline):
			return false, nil
		}
		select {
		case <-ctx.Done():
			return false, nil
		case <-time.After(lockPause):
		}
	}
}

func locked(err error) bool {
	var refused *amqp.Error
	return errors.As(err, &refused) && refused.Code == amqp.ResourceLocked
}

// lockStart lets one job start at a time, so that of two jobs with the same messages
// the second knows of the first. release lets the next one.
func (r *Replayer) lockStart(ctx context.Context, l *line, id string) (release func(context.Context) error, err error) {
	ctx, stop := l.whileUp(ctx)
	defer stop()
	queue := JobQueue(r.cfg.Topology, "start")
	held, err := l.lock(ctx, startTime, func(ch *amqp.Channel) error {
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
		return nil, fmt.Errorf("starting job %s: another job has been starting for %s and holds the queue %s: try again", id, startTime, queue)
	}
	return func(ctx context.Context) error {
		ctx, stop := l.whileUp(ctx)
		defer stop()
		return l.conn.Do(ctx, func(ch *amqp.Channel) error {
			_, err := ch.QueueDelete(queue, false, false, false)
			return err
		})
	}, nil
}

// whileUp is a context that ends with the line, too.
func (l *line) whileUp(ctx context.Context) (context.Context, context.CancelFunc) {
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

// holds says whether a runner holds the queue of its job.
func (l *line) holds(ctx context.Context, queue string) (bool, error) {
	ctx, stop := l.whileUp(ctx)
	defer stop()
	_, found, err := l.conn.QueueState(ctx, queue)
	return found, err
}

// log looks at the queue of events.
func (l *line) log(ctx context.Context, queue string) (Log, error) {
	ctx, stop := l.whileUp(ctx)
	defer stop()
	log, _, err := l.conn.QueueState(ctx, queue)
	return Log{Events: log.Messages, Consumers: log.Consumers}, err
}

// declare holds the queue, if the connection it was declared on is still there:
// from then on there is no other.
func (l *line) declare(ch *amqp.Channel, queue string) error {
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

// Close gives the queue back. What is not confirmed by then may have arrived.
func (l *line) Close() error {
	var left error
	select {
	case <-l.lost: // nobody to wait for
	default:
		left = l.publisher.Close()
	}
	err := errors.Join(left, l.conn.Close())
	return errors.Join(err, l.publisher.Close())
}

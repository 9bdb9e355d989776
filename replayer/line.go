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
	deadline := r.now().Add(dieTime)
	for {
		err := l.conn.Do(ctx, func(ch *amqp.Channel) error { return l.declare(ch, JobQueue(r.cfg.Topology, id)) })
		var refused *amqp.Error
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &refused) || refused.Code != amqp.ResourceLocked:
			return fmt.Errorf("holding the queue of job %s: %w", id, err)
		case r.now().After(deadline):
			return &BusyError{id}
		}
		select {
		case <-ctx.Done():
			return &BusyError{id}
		case <-time.After(lockPause):
		}
	}
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

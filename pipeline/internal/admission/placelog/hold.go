package placelog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/backoff"
)

const (
	retryPause = time.Second

	// checkEvery is how often a process makes sure that it still has the order: a cluster that
	// was parted may have deleted the exclusive queue while the connection goes on.
	checkEvery = 10 * time.Second

	// deadConsumers is how long a process waits for the end of earlier consumers of places, and
	// deadHandlers for places of messages. They end with the connection of the process before, but
	// a cluster counts connections of a node that is down until it is back, although their messages
	// have returned.
	deadConsumers = time.Minute
	deadHandlers  = 10 * time.Second
	deadPause     = 50 * time.Millisecond

	readTimeout  = 30 * time.Second // for the next place
	closeTimeout = 3 * time.Second  // a broker may never answer

	// maxUnread is how many places one consumer may have. A quorum queue takes no limit for
	// 2,000.
	maxUnread = math.MaxUint16
)

// Hold lets a subscription consume the queue of the route: it is a delivery.Lock. All holds
// of a Log belong to one process, and do not exclude each other.
type Hold struct {
	log     *Log
	holding *holding // nil: none; guarded by log.mu
}

// holding is the order of the route, which the process has on one connection by an exclusive
// queue. With the connection it loses the exclusive queue, the places and all messages.
type holding struct {
	log     *Log
	on      *amqp.Connection
	channel *amqp.Channel // of the places
	stop    context.CancelFunc
	lost    chan struct{} // closed when messages may be handled no longer
	ended   chan struct{} // closed when another process may have the order

	users int  // holds; guarded by log.mu
	over  bool // it is lost or ends; guarded by log.mu
}

// NewHold returns a Hold that is not acquired.
func (l *Log) NewHold() *Hold { return &Hold{log: l} }

// Acquire waits until no other process has the order of the route. If this process did not
// have it on the connection, it then reads all places.
func (h *Hold) Acquire(ctx context.Context, on *amqp.Connection) (lost <-chan struct{}, err error) {
	l := h.log
	select {
	case l.opening <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-l.opening }()
	for {
		if lost, err := h.join(ctx, on); lost != nil || err != nil {
			return lost, err
		}
		if err := l.begin(ctx, on); err != nil {
			return nil, err
		}
	}
}

// join takes part in the holding of the process on a connection. Without one it returns no
// channel, after the end of one that was lost.
func (h *Hold) join(ctx context.Context, on *amqp.Connection) (lost <-chan struct{}, err error) {
	l := h.log
	l.mu.Lock()
	current := l.holding
	if ctx.Err() != nil { // no one would release it
		if current != nil && current.users == 0 {
			current.over = true
			current.stop()
		}
		l.mu.Unlock()
		return nil, context.Cause(ctx)
	}
	if current == nil || current.on != on {
		l.mu.Unlock()
		return nil, nil
	}
	if !current.over {
		defer l.mu.Unlock()
		if h.holding != current {
			h.leave()
			h.holding = current
			current.users++
		}
		return current.lost, nil
	}
	h.leave()
	l.mu.Unlock()
	select {
	case <-current.ended:
		return nil, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// leave ends the part in a holding. The caller holds log.mu.
func (h *Hold) leave() (last *holding) {
	g := h.holding
	if h.holding = nil; g == nil {
		return nil
	}
	if g.users--; g.users > 0 {
		return nil
	}
	g.over = true
	g.stop()
	return g
}

// Release ends the hold. With the last one another process may have the order of the route.
func (h *Hold) Release() {
	h.log.mu.Lock()
	last := h.leave()
	h.log.mu.Unlock()
	if last == nil {
		return
	}
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-last.ended:
	case <-timer.C:
	}
}

// Wait returns once nothing of the log runs. It is called after the end of its connections.
func (l *Log) Wait() {
	if l != nil {
		l.work.Wait()
	}
}

// Standby returns since when the process waits for the end of another one that has the order of the
// route; zero if it does not.
func (l *Log) Standby() time.Time {
	if l == nil {
		return time.Time{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.standby
}

// begin takes the order of the route on a connection, once no other process has it, and reads
// all places.
func (l *Log) begin(ctx context.Context, on *amqp.Connection) error {
	if err := l.lock(ctx, on); err != nil {
		return err
	}
	g, deliveries, err := l.takePlaces(ctx, on)
	if err != nil {
		return errors.Join(err, unlock(on, l.cfg.Lock))
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	g.stop = stop
	l.mu.Lock()
	l.holding = g
	l.mu.Unlock()
	l.work.Go(func() { g.run(running, deliveries) })
	return nil
}

// lock declares the exclusive queue, once no other connection has it.
func (l *Log) lock(ctx context.Context, on *amqp.Connection) error {
	defer l.setStandby(time.Time{})
	for {
		err := withChannel(on, func(ch *amqp.Channel) error {
			_, err := ch.QueueDeclare(l.cfg.Lock, false, false, true, false, nil)
			return err
		})
		switch {
		case err == nil:
			return nil
		case !refusedWith(err, amqp.ResourceLocked):
			return fmt.Errorf("declare queue %q: %w", l.cfg.Lock, err)
		}
		if err := l.waitForOther(ctx); err != nil {
			return err
		}
	}
}

// unlock deletes the exclusive queue of a connection.
func unlock(on *amqp.Connection, queue string) error {
	err := withChannel(on, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		return err
	})
	return ignoreClosed(err) // the broker has deleted it then
}

// waitForOther waits for another process, and logs that at first.
func (l *Log) waitForOther(ctx context.Context) error {
	if l.Standby().IsZero() {
		l.cfg.Logger.Info("another process handles the messages of the route in order; waiting for its end", "queue", l.cfg.Route, "lock", l.cfg.Lock)
		l.setStandby(time.Now())
	}
	return backoff.Sleep(ctx, retryPause)
}

func (l *Log) setStandby(since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.standby = since; since.IsZero() {
		l.cfg.Standby.Set(0)
	} else {
		l.cfg.Standby.Set(1)
	}
}

// takePlaces consumes the queue of places, and reads all of them.
func (l *Log) takePlaces(ctx context.Context, on *amqp.Connection) (*holding, <-chan amqp.Delivery, error) {
	if err := l.awaitUnconsumed(ctx, on, l.cfg.Route, deadHandlers); err != nil {
		return nil, nil, err
	}
	channel, deliveries, err := l.consume(ctx, on)
	if err != nil {
		return nil, nil, err
	}
	g := &holding{log: l, on: on, channel: channel, lost: make(chan struct{}), ended: make(chan struct{})}
	l.mu.Lock()
	l.holding, l.channel, l.entries, l.reserved = nil, channel, map[int64]*entry{}, nil
	l.mu.Unlock()
	l.cfg.Gate.Forget()
	if err := l.readAll(ctx, deliveries); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read queue %q: %w", l.cfg.Queue, err), ignoreClosed(channel.Close()))
	}
	return g, deliveries, nil
}

// consume consumes the queue of places once no process of the route does: what others have of it
// returns when their channels end, which may be later than the end of their exclusive queue. A
// process of a former release has no exclusive queue, and is waited for here.
func (l *Log) consume(ctx context.Context, on *amqp.Connection) (*amqp.Channel, <-chan amqp.Delivery, error) {
	defer l.setStandby(time.Time{})
	for deadline := time.Now().Add(deadConsumers); ; {
		if err := l.awaitUnconsumed(ctx, on, l.cfg.Queue, time.Until(deadline)); err != nil {
			return nil, nil, err
		}
		channel, err := on.Channel()
		if err != nil {
			return nil, nil, err
		}
		if err := channel.Qos(maxUnread, 0, false); err != nil {
			return nil, nil, fmt.Errorf("set prefetch: %w", err)
		}
		deliveries, err := channel.Consume(l.cfg.Queue, "", false, false, false, false, nil)
		if err == nil {
			var all int
			if all, err = consumers(on, l.cfg.Queue); err == nil && (all <= 1 || !time.Now().Before(deadline)) {
				return channel, deliveries, nil
			}
		}
		closed := ignoreClosed(channel.Close())
		switch {
		case refusedWith(err, amqp.AccessRefused): // a process of a former release, and a classic queue
			if err := l.waitForOther(ctx); err != nil {
				return nil, nil, err
			}
		case err != nil:
			return nil, nil, errors.Join(fmt.Errorf("consume queue %q: %w", l.cfg.Queue, err), closed)
		}
	}
}

// awaitUnconsumed waits until a queue has no consumers, at most for a time. The answer of a quorum
// queue whose leader is slow is 0, so it counts if it comes twice.
func (l *Log) awaitUnconsumed(ctx context.Context, on *amqp.Connection, queue string, most time.Duration) error {
	deadline, none := time.Now().Add(most), 0
	for told := false; ; told = true {
		n, err := consumers(on, queue)
		if err != nil {
			return fmt.Errorf("look at queue %q: %w", queue, err)
		}
		if none++; n > 0 {
			none = 0
		}
		switch {
		case none == 2:
			return nil
		case !time.Now().Before(deadline):
			l.cfg.Logger.Warn("the queue still has other consumers; messages that these have may be handled out of order", "queue", queue, "consumers", n)
			return nil
		case n > 0 && !told:
			l.cfg.Logger.Info("waiting for the end of other consumers, to handle messages in order", "queue", queue, "consumers", n)
		}
		if err := backoff.Sleep(ctx, deadPause); err != nil {
			return err
		}
	}
}

func consumers(on *amqp.Connection, queue string) (n int, err error) {
	err = withChannel(on, func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		n = q.Consumers
		return err
	})
	return n, err
}

// withChannel calls f with a channel for it alone.
func withChannel(on *amqp.Connection, f func(*amqp.Channel) error) error {
	ch, err := on.Channel()
	if err != nil {
		return err
	}
	return errors.Join(f(ch), ignoreClosed(ch.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, amqp.ErrClosed) {
		return nil
	}
	return err
}

func refusedWith(err error, code int) bool {
	var refused *amqp.Error
	return errors.As(err, &refused) && refused.Code == code
}

// readAll reads until a message that it has published itself, which follows all others.
func (l *Log) readAll(ctx context.Context, deliveries <-chan amqp.Delivery) error {
	last := rand.Text()
	limited, cancel := context.WithTimeout(ctx, readTimeout) // another process may be able to publish
	defer cancel()
	if err := l.cfg.Publisher.Publish(limited, l.message(amqp.Publishing{MessageId: last})); err != nil {
		return err
	}
	timeout := time.NewTimer(readTimeout)
	defer timeout.Stop()
	for range maxUnread {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return errors.New("the channel was closed")
			}
			if d.MessageId == last {
				return d.Ack(false)
			}
			l.delivered(d)
			timeout.Reset(readTimeout)
		case <-timeout.C:
			return fmt.Errorf("no place was delivered for %s, and not all are read", readTimeout)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	l.cfg.Logger.Warn("the queue has more places of messages than can be read at once; the order of the last ones is not known yet", "queue", l.cfg.Queue, "read", maxUnread)
	return nil
}

// run reads places until the holding ends or is lost. Messages are given back before another
// process may have the order.
func (g *holding) run(ctx context.Context, deliveries <-chan amqp.Delivery) {
	l := g.log
	why := g.read(ctx, deliveries)
	l.mu.Lock()
	if g.over = true; g.users == 0 {
		g.stop()
	}
	l.mu.Unlock()
	close(g.lost)
	if why != nil && !g.on.IsClosed() {
		l.cfg.Logger.Warn("the order of the messages of the route is lost; taking it again", "queue", l.cfg.Route, "error", why)
	}
	<-ctx.Done()
	_ = g.channel.Close()
	_ = unlock(g.on, l.cfg.Lock)
	l.mu.Lock()
	if l.holding == g {
		l.holding, l.channel = nil, nil
	}
	l.mu.Unlock()
	close(g.ended)
}

func (g *holding) read(ctx context.Context, deliveries <-chan amqp.Delivery) error {
	rewrite, check := time.NewTicker(rewriteEvery), time.NewTicker(checkEvery)
	defer rewrite.Stop()
	defer check.Stop()
	for {
		select {
		case d, ok := <-deliveries:
			if !ok {
				return fmt.Errorf("the consumer of queue %q has ended", g.log.cfg.Queue)
			}
			if g.log.delivered(d) {
				g.log.writeReserved(ctx)
			}
		case <-rewrite.C:
			g.log.rewrite(ctx)
		case <-check.C:
			if _, err := consumers(g.on, g.log.cfg.Lock); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

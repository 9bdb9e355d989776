package rabbit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// PublisherConfig holds the limits of a Publisher. The zero value suits most uses.
type PublisherConfig struct {
	// Window is the maximum of unconfirmed messages, which are kept in memory. Messages
	// given up by their callers do not count. Zero: 1,000.
	Window int

	// MaxGivenUp is the maximum of unconfirmed messages given up by their callers; at
	// that number the publisher opens another channel. A RabbitMQ channel waits up to
	// half a minute per message for a quorum queue without a majority. Zero: Window.
	MaxGivenUp int

	// StopTimeout is the maximum time that Close waits for confirms. Zero: 10 s.
	StopTimeout time.Duration

	// Silence is how long a node of a cluster may confirm nothing, while messages wait for
	// their confirms, before the publisher connects to another one: a node that is cut off
	// from the others takes messages, and can store none. The time doubles if the next node
	// confirms nothing either. Zero: 10 s.
	Silence time.Duration

	// Refusals is how long after the first message that a full queue refused the publisher opens
	// another channel: RabbitMQ 3.10 never informs a channel that a quorum queue has no limit any
	// more. Zero: 5 s.
	Refusals time.Duration
}

const (
	defaultWindow      = 1000
	defaultStopTimeout = 10 * time.Second
)

// Publisher publishes with publisher confirms, many unconfirmed messages at a time
// on one channel. One goroutine, run, owns the channel and is its only writer.
//
// A message is sent again when the connection is lost before its confirm, and when
// the broker returned a message that may be this one: delivery is at least once.
// Messages keep the order of Send, except those sent again.
type Publisher struct {
	conn   *Connection
	cfg    PublisherConfig
	slots  chan struct{} // one per message from Send to its outcome, or until its caller gives it up
	submit chan *Pending // from Send to run
	dead   chan struct{} // closed when run has returned: no more outcomes

	ctx  context.Context // ends after Close has waited for confirms, and when run returns
	stop context.CancelFunc
	work sync.WaitGroup // run

	closing   chan struct{} // closed by Close: Send fails
	closeOnce sync.Once

	silence silence // of the node that run writes to

	using              atomic.Pointer[link] // the connection that run writes to, for Close to abort
	givenUpUnconfirmed atomic.Int32         // number of sent messages given up by their callers and not confirmed
}

// NewPublisher returns a publisher on c. Close the publisher first, then c. The
// publisher opens its channel at once, and again after each loss.
func NewPublisher(c *Connection, cfg PublisherConfig) *Publisher {
	if cfg.Window <= 0 {
		cfg.Window = defaultWindow
	}
	if cfg.MaxGivenUp <= 0 {
		cfg.MaxGivenUp = cfg.Window
	}
	if cfg.StopTimeout <= 0 {
		cfg.StopTimeout = defaultStopTimeout
	}
	if cfg.Silence <= 0 {
		cfg.Silence = defaultSilence
	}
	if cfg.Refusals <= 0 {
		cfg.Refusals = defaultRefusals
	}
	p := &Publisher{
		conn:    c,
		cfg:     cfg,
		slots:   make(chan struct{}, cfg.Window),
		submit:  make(chan *Pending, cfg.Window),
		dead:    make(chan struct{}),
		closing: make(chan struct{}),
		silence: silence{first: cfg.Silence, most: cfg.Silence},
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.work.Go(p.run)
	return p
}

// Publish sends the message and returns when the broker has confirmed it: nil when
// it was routed and confirmed. An UnroutableError, NackedError or RefusedError
// concerns this message only. Otherwise the error is ErrClosed or the cause of ctx;
// the message may have arrived nevertheless.
func (p *Publisher) Publish(ctx context.Context, m Message) error {
	pending, err := p.Send(ctx, m)
	if err != nil {
		return err
	}
	return pending.Wait(ctx)
}

// Send queues the message for sending and returns before it is confirmed. It waits
// while the window is full, until ctx ends. The messages of one goroutine are sent
// in the order of its calls. After ctx has ended the message is not sent, or sent
// again.
func (p *Publisher) Send(ctx context.Context, m Message) (*Pending, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	pending := &Pending{message: m, ctx: ctx, done: make(chan error, 1), publisher: p}
	if err := p.takeSlot(pending); err != nil {
		return nil, err
	}
	if err := p.enqueue(pending); err != nil {
		<-p.slots
		return nil, err
	}
	return pending, nil
}

// enqueue passes a message to run, which receives only while it has a channel.
func (p *Publisher) enqueue(m *Pending) error {
	select { // without the other channels it takes a fraction of the time
	case p.submit <- m:
		return nil
	default:
	}
	select {
	case p.submit <- m:
		return nil
	case <-p.closing:
	case <-p.dead:
	case <-m.ctx.Done():
		return m.notConfirmedError(m.ctx)
	}
	return ErrClosed
}

func (p *Publisher) takeSlot(m *Pending) error {
	if isClosed(p.closing) || isClosed(p.dead) {
		return ErrClosed
	}
	select {
	case p.slots <- struct{}{}:
		return nil
	default:
	}
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-p.closing:
	case <-p.dead:
	case <-m.ctx.Done():
		return m.notConfirmedError(m.ctx)
	}
	return ErrClosed
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Close stops Send, waits for outstanding confirms, at most StopTimeout, and
// resolves the remaining messages with ErrClosed. Its error includes their number.
func (p *Publisher) Close() error {
	p.closeOnce.Do(func() { close(p.closing) })
	left := p.drain()
	p.stop()
	// A write to a broker that has stopped reading ends only when the stream is closed.
	unstick := time.AfterFunc(closeTimeout, func() {
		if conn := p.using.Load(); conn != nil {
			conn.abort()
		}
	})
	p.work.Wait()
	unstick.Stop()
	if left > 0 {
		return fmt.Errorf("publisher closed with %d messages unconfirmed", left)
	}
	return nil
}

// drain waits until every slot is free, and returns the number of slots still in
// use.
func (p *Publisher) drain() int {
	timer := time.NewTimer(p.cfg.StopTimeout)
	defer timer.Stop()
	for free := range p.cfg.Window {
		select {
		case p.slots <- struct{}{}:
		case <-p.dead: // Close was called before, or on the connection
			return 0
		case <-timer.C:
			return p.cfg.Window - free
		}
	}
	return 0
}

// finish delivers the outcome of a message that is being sent.
func (p *Publisher) finish(m *Pending, err error) {
	if !m.move(sending, answered) {
		p.givenUpUnconfirmed.Add(-1)
		return
	}
	m.done <- err
	<-p.slots
}

// tooManyGivenUp reports whether the unconfirmed messages given up by their callers
// have reached MaxGivenUp.
func (p *Publisher) tooManyGivenUp() bool {
	return int(p.givenUpUnconfirmed.Load()) >= p.cfg.MaxGivenUp
}

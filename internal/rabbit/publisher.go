package rabbit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// PublisherConfig bounds a Publisher. The zero value is good for most.
type PublisherConfig struct {
	// Window is how many messages may be on their way at once, sent and not yet
	// confirmed; they are kept in memory. A message that its caller gives up does
	// not count. Zero: 1,000.
	Window int

	// MaxGivenUp is how many messages that their callers gave up may be unconfirmed
	// before the channel is opened again. A channel of RabbitMQ waits for a quorum
	// queue without a majority, up to half a minute for each message. Zero: Window.
	MaxGivenUp int

	// StopTimeout is how long Close waits for confirms. Zero: 10 s.
	StopTimeout time.Duration
}

const (
	defaultWindow      = 1000
	defaultStopTimeout = 10 * time.Second
)

// Publisher publishes with confirms, many messages at a time on one channel.
// One goroutine owns the channel and is the only one that writes to it.
//
// A message is sent again when the connection is lost before its confirm came, and
// when the broker returned a message that may be this one or another: it may
// arrive twice, and is never lost. Order is that of Send, but for what is sent again.
type Publisher struct {
	conn   *Connection
	cfg    PublisherConfig
	slots  chan struct{} // one for each message from Send to its outcome, or until its caller gives it up
	submit chan *Pending // to the owner
	dead   chan struct{} // closed when the owner has ended: no more outcomes

	ctx  context.Context // ends when Close has waited long enough, and with the owner
	stop context.CancelFunc
	work sync.WaitGroup // the owner

	closing   chan struct{} // closed by Close: nothing new is taken
	closeOnce sync.Once

	using atomic.Pointer[link] // what the owner may be stuck writing to
	stray atomic.Int32         // messages that were sent, given up by their callers and not confirmed
}

// NewPublisher returns a publisher on c, which stays the caller's to close, after
// the publisher. It opens its channel at once and again whenever that is lost.
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
	p := &Publisher{
		conn:    c,
		cfg:     cfg,
		slots:   make(chan struct{}, cfg.Window),
		submit:  make(chan *Pending, cfg.Window),
		dead:    make(chan struct{}),
		closing: make(chan struct{}),
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.work.Go(p.run)
	return p
}

// Publish sends the message and returns when the broker has made it safe: nil
// when it was routed and confirmed. Else the error is an UnroutableError, a
// NackedError or a RefusedError, which concern this message only, ErrClosed, or
// the cause of ctx; after the latter two the message may yet have arrived.
func (p *Publisher) Publish(ctx context.Context, m Message) error {
	pending, err := p.Send(ctx, m)
	if err != nil {
		return err
	}
	return pending.Wait(ctx)
}

// Send hands the message to the publisher and returns before it is confirmed, or
// sent. It waits while the window is full, as long as ctx allows. The messages of
// one goroutine are sent in the order of its calls. ctx also bounds how long the
// message is tried: it is not sent, or sent again, after ctx has ended.
func (p *Publisher) Send(ctx context.Context, m Message) (*Pending, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	pending := &Pending{message: m, ctx: ctx, done: make(chan error, 1), publisher: p}
	if err := p.takeSlot(pending); err != nil {
		return nil, err
	}
	if err := p.hand(pending); err != nil {
		<-p.slots
		return nil, err
	}
	return pending, nil
}

// hand gives a message to the owner, which takes none while there is no channel.
func (p *Publisher) hand(m *Pending) error {
	select {
	case p.submit <- m:
		return nil
	case <-p.closing:
	case <-p.dead:
	case <-m.ctx.Done():
		return m.abandoned(m.ctx)
	}
	return ErrClosed
}

func (p *Publisher) takeSlot(m *Pending) error {
	select {
	case <-p.closing:
		return ErrClosed
	case <-p.dead:
		return ErrClosed
	default:
	}
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-p.closing:
	case <-p.dead:
	case <-m.ctx.Done():
		return m.abandoned(m.ctx)
	}
	return ErrClosed
}

// Close takes nothing new, waits for the messages on their way, at most for
// StopTimeout, and answers ErrClosed for those that are left. It returns an
// error that counts them.
func (p *Publisher) Close() error {
	p.closeOnce.Do(func() { close(p.closing) })
	left := p.drain()
	p.stop()
	// A write to a broker that has stopped reading ends only with the stream.
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

// drain waits until every slot is free, and says how many were not.
func (p *Publisher) drain() int {
	timer := time.NewTimer(p.cfg.StopTimeout)
	defer timer.Stop()
	for free := range p.cfg.Window {
		select {
		case p.slots <- struct{}{}:
		case <-p.dead: // closed before, or the connection was
			return 0
		case <-timer.C:
			return p.cfg.Window - free
		}
	}
	return 0
}

// finish gives a message that is being sent its outcome.
func (p *Publisher) finish(m *Pending, err error) {
	if !m.move(sending, answered) {
		p.stray.Add(-1)
		return
	}
	m.done <- err
	<-p.slots
}

// overrun says whether too many messages are in the window that nobody waits for.
func (p *Publisher) overrun() bool { return int(p.stray.Load()) >= p.cfg.MaxGivenUp }

package transport

import (
	"context"
	"math"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/backoff"
)

// Option is a setting that watermill-amqp's Config has no field for.
type Option func(*options)

type options struct {
	concurrency    int
	maxBytes       int
	stopTimeout    time.Duration
	nackBackoff    backoff.Backoff
	window         int
	publishTimeout time.Duration
	name           string
	nodes          []string
	onRequeue      func(messages int)
	onArrival      func(*message.Message) (settled func())
	newLock        func() Lock
	onState        func(error)
	beforeRequeue  func(context.Context) // nil: messages may be requeued that have not arrived

	settledByHandlers bool
}

const (
	defaultStopTimeout = 10 * time.Second
	defaultBackoffMin  = 100 * time.Millisecond
	defaultBackoffMax  = 10 * time.Second
)

func newOptions(opts []Option) options {
	o := options{
		concurrency: 1,
		stopTimeout: defaultStopTimeout,
		nackBackoff: backoff.Backoff{Min: defaultBackoffMin, Max: defaultBackoffMax},
		name:        "watership",
		onRequeue:   func(int) {},
		onArrival:   func(*message.Message) func() { return func() {} },
		newLock:     func() Lock { return noLock{} },
		onState:     func(error) {},
	}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// Concurrency sets how many messages of one subscription are in flight, delivered and
// not yet acked or nacked, up to 65,535; 1, the default, keeps the order of the queue.
// The prefetch follows it; Config.Consume.Qos.PrefetchCount is its minimum.
func Concurrency(n int) Option {
	return func(o *options) { o.concurrency = min(max(n, 1), math.MaxUint16) } // a short on the wire (AMQP 0-9-1 §1.8.3.1)
}

// MaxBytes bounds the bodies and headers of the messages that a Subscriber has in flight,
// over all its subscriptions; one message may be in flight, however large it is. The
// prefetch follows the size of messages: a subscription begins with a small prefetch and
// adjusts it to the observed sizes, so that the memory of prefetched messages is bounded,
// too, except for a moment in which messages become larger. Handlers that copy a message
// need more. A subscription with consumer arguments or an exclusive one keeps its
// prefetch. Zero, the default: no bound.
func MaxBytes(n int) Option {
	return func(o *options) { o.maxBytes = max(n, 0) }
}

// StopTimeout sets how long the end of a subscription waits for handlers; 10 s by
// default. After it the contexts of their messages end, and the messages are requeued.
func StopTimeout(d time.Duration) Option {
	return func(o *options) { o.stopTimeout = max(d, 0) }
}

// NackBackoff bounds the pause between a nack and the requeue of the message: low for the
// first nack, doubling with each redelivery up to high, shortened at random by up to a
// half; 100 ms to 10 s by default. During the pause the message counts as in flight. Zero
// for both requeues it at once.
func NackBackoff(low, high time.Duration) Option {
	return func(o *options) { o.nackBackoff = backoff.Backoff{Min: low, Max: max(low, high)} }
}

// OnRequeue sets a function that a Subscriber calls, from any goroutine, with the number of
// messages that it requeues although no handler has had them: prefetched ones at the end
// of a subscription or of a larger prefetch. If a channel is lost, it is called before the
// messages are delivered once more, with the most that the broker may have delivered on that channel without
// an acknowledgement, including messages of handlers. The broker marks them as redelivered.
func OnRequeue(f func(messages int)) Option {
	return func(o *options) { o.onRequeue = f }
}

// OnArrival sets a function that a Subscriber calls with each message before it delivers it,
// in the order of the queue. It may set the message's context. The returned function is
// called when the message is acked or requeued.
func OnArrival(f func(msg *message.Message) (settled func())) Option {
	return func(o *options) { o.onArrival = f }
}

// BeforeRequeue sets a function that a Subscriber calls, from any goroutine, before it requeues a
// message, to keep the order of messages: a quorum queue puts a message that is requeued behind
// others that were requeued before, or behind all if it has no delivery limit. Each message has
// arrived by then, as OnArrival says.
func BeforeRequeue(f func(ctx context.Context)) Option {
	return func(o *options) { o.beforeRequeue = f }
}

// Lock decides when a subscription may consume its queue.
type Lock interface {
	// Acquire returns once the subscription may consume on a connection. A lock that is an
	// exclusive queue of this connection is lost with it, as all deliveries are. If lost is
	// closed before, the subscription gives all its messages back and calls Acquire again, as it
	// does after an error, which is logged.
	Acquire(ctx context.Context, on *amqp.Connection) (lost <-chan struct{}, err error)

	// Release is called once the channel of the subscription is closed, and the broker
	// has all its messages back. It may be called more often than Acquire, and not after each:
	// if the subscription cannot consume after Acquire, it calls Acquire again.
	Release()
}

type noLock struct{}

func (noLock) Acquire(context.Context, *amqp.Connection) (<-chan struct{}, error) { return nil, nil }
func (noLock) Release()                                                           {}

// Locked sets a function that returns the lock of each new subscription, such as one that
// lets only one process consume a queue.
func Locked(newLock func() Lock) Option {
	return func(o *options) { o.newLock = newLock }
}

// OnState sets a function that a Subscriber calls with nil when one of its subscriptions consumes
// its queue, or has ended, and with the reason while it does not consume and tries to.
func OnState(f func(why error)) Option {
	return func(o *options) { o.onState = f }
}

// SettledByHandlers makes handlers call Settle with the context of each message that they got.
// The ack and the nack of the message have no effect then, and no goroutine waits for them.
func SettledByHandlers() Option {
	return func(o *options) { o.settledByHandlers = true }
}

// Window sets how many messages of a publisher may be unconfirmed; 1,000 by default.
func Window(n int) Option {
	return func(o *options) { o.window = n }
}

// PublishTimeout bounds each Publish; 0, the default, waits as long as the message's
// context allows, also while the broker is unavailable.
func PublishTimeout(d time.Duration) Option {
	return func(o *options) { o.publishTimeout = d }
}

// ConnectionName sets the name of the connection on the broker's management page;
// "watership" by default.
func ConnectionName(name string) Option {
	return func(o *options) { o.name = name }
}

// Nodes adds nodes of the broker's cluster as host:port. The rest of Connection.AmqpURI applies to them
// as well, and a connection that is lost goes on at any of them.
func Nodes(hosts ...string) Option {
	return func(o *options) { o.nodes = hosts }
}

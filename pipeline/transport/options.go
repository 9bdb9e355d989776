package transport

import (
	"math"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/pipeline/internal/delivery"
)

// Option is a setting that watermill-amqp's Config has no field for. The functions of this package return the options
// that have an effect.
type Option interface{ TransportOption() }

type option func(*options)

func (option) TransportOption() {}

type options struct {
	concurrency    int
	maxBytes       int
	stopTimeout    time.Duration
	nackBackoff    backoff.Backoff
	window         int
	publishTimeout time.Duration
	name           string
	nodes          []string
	hooks          delivery.Hooks // of package pipeline
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
		hooks:       delivery.NoHooks(),
	}
	for _, opt := range opts {
		switch set := opt.(type) {
		case option:
			set(&o)
		case delivery.Option:
			set(&o.hooks)
		}
	}
	return o
}

// Concurrency sets how many messages of one subscription are in flight, delivered and
// not yet acked or nacked, up to 65,535; 1, the default, keeps the order of the queue.
// The prefetch follows it; Config.Consume.Qos.PrefetchCount is its minimum.
func Concurrency(n int) Option {
	return option(func(o *options) { o.concurrency = min(max(n, 1), math.MaxUint16) }) // a short on the wire (AMQP 0-9-1 §1.8.3.1)
}

// MaxBytes bounds the bodies and headers of the messages that a Subscriber has in flight,
// over all its subscriptions; one message may be in flight, however large it is. The
// prefetch follows the size of messages: a subscription begins with a small prefetch and
// adjusts it to the observed sizes, so that the memory of prefetched messages is bounded,
// too, except for a moment in which messages become larger. Handlers that copy a message
// need more. A subscription with consumer arguments or an exclusive one keeps its
// prefetch. Zero, the default: no bound.
func MaxBytes(n int) Option {
	return option(func(o *options) { o.maxBytes = max(n, 0) })
}

// StopTimeout sets how long the end of a subscription waits for handlers; 10 s by
// default. After it the contexts of their messages end, and the messages are requeued.
func StopTimeout(d time.Duration) Option {
	return option(func(o *options) { o.stopTimeout = max(d, 0) })
}

// NackBackoff bounds the pause between a nack and the requeue of the message: low for the
// first nack, doubling with each redelivery up to high, shortened at random by up to a
// half; 100 ms to 10 s by default. During the pause the message counts as in flight. Zero
// for both requeues it at once.
func NackBackoff(low, high time.Duration) Option {
	return option(func(o *options) { o.nackBackoff = backoff.Backoff{Min: low, Max: max(low, high)} })
}

// Window sets how many messages of a publisher may be unconfirmed; 1,000 by default.
func Window(n int) Option {
	return option(func(o *options) { o.window = n })
}

// PublishTimeout bounds each Publish; 0, the default, waits as long as the message's
// context allows, also while the broker is unavailable.
func PublishTimeout(d time.Duration) Option {
	return option(func(o *options) { o.publishTimeout = d })
}

// ConnectionName sets the name of the connection on the broker's management page;
// "watership" by default.
func ConnectionName(name string) Option {
	return option(func(o *options) { o.name = name })
}

// Nodes adds nodes of the broker's cluster as host:port. The rest of Connection.AmqpURI applies to them
// as well, and a connection that is lost goes on at any of them.
func Nodes(hosts ...string) Option {
	return option(func(o *options) { o.nodes = hosts })
}

package subscription

import (
	"context"
	"crypto/rand"
	"iter"
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/schemas"
)

// Records is a store of events that keeps subscriptions, too. The stores of packages elastic
// and sqlite are such stores.
type Records interface {
	Store

	// Count returns the number of events of a selection, or more if the store has duplicates.
	Count(ctx context.Context, selection eventstore.Selection) (int64, error)

	eventstore.RecordStore
	DeleteRecord(ctx context.Context, kind, id, version string) (deleted bool, err error)
	Records(ctx context.Context, kind string) iter.Seq2[[]byte, error]
}

// Config has the store and the broker of Subscriptions. Store and Source are required, and
// URL to run any.
type Config struct {
	Store  Records
	Source string // as the events have it

	// Connection is to the broker at which a process holds the subscriptions that it runs.
	rabbitmq.Connection

	Topology     schemas.Topology
	RouteQueues  []string // the queues of the routes of a pipeline
	StateKeys    schemas.StateKeys
	Fingerprints schemas.Fingerprints
	Opener       privacy.Opener // of the originals of redacted messages; nil: these are parked
	Labels       []string       // names of labels that queries can use alone

	// Text removes from the texts of errors, which are stored, what must not be stored. nil: nothing.
	Text func(string) string

	// Programs run the programs of subscriptions (Subscription.Upcast), which then have limits. Nil: this
	// process runs them.
	Programs *transform.Processes

	// Post delivers to a URL. An error of retry.Permanent makes the message poison, one of
	// retry.Unavailable costs no attempt. Nil: subscriptions to URLs are not run here.
	Post func(ctx context.Context, url string, d Delivery) error

	Interval time.Duration // between two looks for new events; 0: DefaultInterval
	Logger   *slog.Logger  // nil: slog.Default
}

// Subscriptions creates, changes and runs the subscriptions of a store.
type Subscriptions struct {
	subscriptionRecords
	parkedRecords
	runnerViews

	cfg    Config
	events *sharedReads
	login  string
	runner string // names this process in checkpoints
}

// New returns Subscriptions. It opens no connection.
func New(cfg Config) *Subscriptions {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Subscriptions{
		subscriptionRecords: subscriptionRecords{cfg.Store, cfg.Source}, parkedRecords: parkedRecords{cfg.Store},
		runnerViews: runnerViews{running: map[string]*runnerView{}},
		cfg:         cfg, events: newSharedReads(cfg.Store), runner: rand.Text(),
	}
	if uri, err := amqp.ParseURI(cfg.URL); err == nil { // a connection reports the error
		s.login = rabbit.UserID(uri)
	}
	return s
}

// leaseQueue returns the name of the exclusive queue that the runner of a subscription holds.
func leaseQueue(topology schemas.Topology, name string) string {
	return topology.Name(".subscription." + name)
}

// Delivery is an event on its way to the target of a subscription. A repeated delivery has
// the same subscription and position.
type Delivery struct {
	Subscription string
	Position     eventstore.Cursor
	Event        schemas.Event
}

// Headers of a delivery to a queue. The position is as FormatPosition has it. The order is
// "priority" for a message that RabbitMQ may have delivered before ones that were published
// earlier, else none exists.
const (
	NameHeader     = "watership-subscription"
	PositionHeader = "watership-subscription-position"
	ActionHeader   = "watership-subscription-action"
	OrderHeader    = "watership-subscription-order"
)

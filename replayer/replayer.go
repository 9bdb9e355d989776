// Package replayer sends stored messages again: find, preview, publish, checkpoint. It
// publishes a message, then its `replayed` event, then saves the checkpoint of the
// job: a crash may send a message twice and never loses one.
//
// A job is a document in the store. Its runner holds an exclusive queue on the
// connection on which it publishes, so a job never has two runners.
package replayer

import (
	"context"
	"iter"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/storeretry"
	"github.com/watershipmq/watership/schemas"
)

// Store reads the events of messages.
type Store interface {
	// Events yields the events of a selection from one consistent view. An error that
	// is no *eventstore.Error concerns one document, and the sequence continues.
	Events(ctx context.Context, selection eventstore.Selection) iter.Seq2[schemas.Event, error]

	// Summaries reads the selected events in the order BySequence, without their
	// documents: those with one of the values in one of the fields, or all without
	// such filters.
	Summaries(ctx context.Context, selection eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error]

	// Count returns the number of events that Events would yield, or more if the store
	// has duplicates.
	Count(ctx context.Context, selection eventstore.Selection) (int64, error)

	// Refresh makes all stored events visible to queries.
	Refresh(ctx context.Context) error

	// HighestSequence returns the highest event.sequence stored.
	HighestSequence(ctx context.Context) (int64, error)
}

// Jobs stores jobs as opaque documents.
type Jobs interface {
	// CreateJob stores a new job and returns its version.
	CreateJob(ctx context.Context, id string, document []byte) (version string, err error)

	// SaveJob replaces a job if it still has this version. Otherwise it changes
	// nothing and returns "".
	SaveJob(ctx context.Context, id, version string, document []byte) (newVersion string, err error)

	// Job returns the stored document of a job; nil if there is none.
	Job(ctx context.Context, id string) (document []byte, version string, err error)

	// Jobs yields all jobs that were created before the call, the highest id first.
	Jobs(ctx context.Context) iter.Seq2[[]byte, error]
}

// DirectDelivery sends a message to the single queue state.Queue.
type DirectDelivery interface {
	// Deliver publishes a message to the queue, and first declares the binding if it
	// is missing.
	Deliver(ctx context.Context, e schemas.Envelope, state schemas.State) error

	// Message returns the message that Deliver would publish to a queue with an
	// existing binding.
	Message(e schemas.Envelope, state schemas.State) rabbit.Message
}

// Routes checks whether messages are routable. The mandatory flag cannot tell on a
// tapped exchange, since the tap is a route.
type Routes interface {
	// Exchange reports whether a message reaches a queue other than Watership's.
	Exchange(ctx context.Context, e schemas.Envelope) (bool, error)

	// Queue reports whether a queue exists.
	Queue(ctx context.Context, queue string) (bool, error)
}

// Config has the store and the broker of a Replayer. Broker and DirectDelivery are
// required to run jobs only.
type Config struct {
	Store Store
	Jobs  Jobs

	// Broker is dialled by each running job, in addition to other connections.
	Broker rabbit.Config

	// DirectDelivery returns the publisher to single queues on a job's connection.
	DirectDelivery func(*rabbit.Connection, *rabbit.Publisher) DirectDelivery

	Routes   Routes // nil: routes are not checked
	Topology schemas.Topology

	// StateKeys sign message states and events, as in pipeline.Config. Zero: no
	// signatures.
	StateKeys schemas.StateKeys

	Login string        // the user_id that the broker accepts in messages
	NewID func() string // generates ids that sort by time, such as ULIDs

	// Log returns the state of the queue of events. nil: a plan uses only the
	// `replayed` events in the store.
	Log func(context.Context) (Log, error)

	// Retention is the time for which the store keeps `replayed` events. 0: unlimited.
	Retention time.Duration
}

// Log is the state of the queue of events.
type Log struct {
	Events    int // that are not in the store yet
	Consumers int
	Unknown   bool
}

// Replayer plans and runs jobs.
type Replayer struct {
	cfg           Config
	now           func() time.Time
	recordTimeout time.Duration
}

// New returns a Replayer. It opens no connection.
func New(cfg Config) *Replayer {
	return &Replayer{cfg: cfg, now: time.Now, recordTimeout: recordTimeout}
}

// withRetries returns a replayer that repeats reads while the store is unavailable or
// overloaded, until the timeout.
func (r *Replayer) withRetries(timeout time.Duration) *Replayer {
	retrying := *r
	retrying.cfg.Store = storeretry.Events{EventReader: r.cfg.Store, Timeout: timeout}
	retrying.cfg.Jobs = storeretry.Jobs{JobStore: r.cfg.Jobs, Timeout: timeout}
	return &retrying
}

// recordTimeout is the longest time that Plan and a resumed job wait for `replayed`
// events of messages sent before.
const recordTimeout = 10 * time.Second

// sign signs the state of a message if there are keys.
func (r *Replayer) sign(m rabbit.Message) rabbit.Message {
	verifier := schemas.Verifier{Topology: r.cfg.Topology, Keys: r.cfg.StateKeys}
	m.Publishing = verifier.Sign(m.Exchange, m.RoutingKey, m.Publishing)
	return m
}

func (r *Replayer) newSelector(target Target) *selector {
	return newSelector(target, r.cfg.Topology.Owns)
}

// Package replayer sends messages that the store has kept to where they came
// from: find, preview, publish, checkpoint. A message goes out first, then the
// `replayed` event that says so, then the checkpoint of the job: a crash between
// them may send a message twice and never leaves one out.
//
// A job is a document in the store. Whoever runs it holds an exclusive queue on
// the connection that it publishes on, so there is never a second one.
package replayer

import (
	"context"
	"iter"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// Store is where messages are found.
type Store interface {
	// Events reads what a selection matches, each from one stable view. An error
	// that is no *schemas.StoreError is about one document, and the reading goes on.
	Events(ctx context.Context, selection schemas.Selection) iter.Seq2[schemas.Event, error]

	// Summaries reads the selected events in the order BySequence, without their
	// documents: those with one of the values in one of the fields, or all without
	// such filters.
	Summaries(ctx context.Context, selection schemas.Selection, either ...schemas.Among) iter.Seq2[schemas.Fact, error]

	// Count counts what Events would give, or more where a document is twice.
	Count(ctx context.Context, selection schemas.Selection) (int64, error)

	// Refresh makes everything that was stored so far visible to the others.
	Refresh(ctx context.Context) error

	// HighestSequence is the highest event.sequence stored.
	HighestSequence(ctx context.Context) (int64, error)
}

// Jobs is where jobs are kept. What is kept is opaque to it.
type Jobs interface {
	// CreateJob keeps a new job and gives its version.
	CreateJob(ctx context.Context, id string, document []byte) (version string, err error)

	// SaveJob replaces a job, unless somebody else has since the version was
	// given: then it changes nothing and gives "".
	SaveJob(ctx context.Context, id, version string, document []byte) (newVersion string, err error)

	// Job gives a job as it was saved last; nil where there is none.
	Job(ctx context.Context, id string) (document []byte, version string, err error)

	// Jobs gives all that were created before the call, the highest id first.
	Jobs(ctx context.Context) iter.Seq2[[]byte, error]
}

// DirectDelivery takes a message to the queue state.Queue.
type DirectDelivery interface {
	// Deliver makes the queue reachable first where it is not.
	Deliver(ctx context.Context, e schemas.Envelope, state schemas.State) error

	// Message is what Deliver publishes, for a queue that was reached before.
	Message(e schemas.Envelope, state schemas.State) rabbit.Message
}

// Routes tells whether messages would arrive. On a tapped exchange a mandatory
// publish cannot: the tap is itself a route.
type Routes interface {
	// Exchange says whether a message reaches a queue other than ours.
	Exchange(ctx context.Context, e schemas.Envelope) (bool, error)

	// Queue says whether a queue exists.
	Queue(ctx context.Context, queue string) (bool, error)
}

// Config says where messages are found and how they are sent. Broker and Hop
// are needed to run jobs only.
type Config struct {
	Store Store
	Jobs  Jobs

	// Broker is dialled once more for each job that runs.
	Broker rabbit.Config

	// DirectDelivery makes the last hop on a job's own connection.
	DirectDelivery func(*rabbit.Connection, *rabbit.Publisher) DirectDelivery

	Routes   Routes // nil: routes are not checked
	Topology schemas.Topology

	// StateKeys sign marks and events, as those of pipeline.Config do. Zero: they are
	// not signed.
	StateKeys schemas.StateKeys

	Login string        // the user_id that the broker lets us restore
	NewID func() string // ids that sort in the order in which they were made, such as ULIDs

	// Log looks at the queue of events, from which the store learns what was
	// replayed. nil: a plan compares jobs with their records alone.
	Log func(context.Context) (Log, error)

	// Retention is how long the store keeps `replayed` events. 0: for ever.
	Retention time.Duration
}

// Log is the state of the queue of events.
type Log struct {
	Events    int // that are not stored yet
	Consumers int
	Unknown   bool
}

// Replayer plans and runs jobs.
type Replayer struct {
	cfg           Config
	now           func() time.Time
	recordTimeout time.Duration
}

// New connects to nothing.
func New(cfg Config) *Replayer {
	return &Replayer{cfg: cfg, now: time.Now, recordTimeout: recordTimeout}
}

// recordTimeout is how long a plan, or the resume of a job, waits for the record of what
// was sent before.
const recordTimeout = 10 * time.Second

// sign signs the state of a message, where there are keys.
func (r *Replayer) sign(m rabbit.Message) rabbit.Message {
	verifier := schemas.Verifier{Topology: r.cfg.Topology, Keys: r.cfg.StateKeys}
	m.Publishing = verifier.Sign(m.Exchange, m.RoutingKey, m.Publishing)
	return m
}

func (r *Replayer) newSelector(target Target) *selector {
	return newSelector(target, r.cfg.Topology.Owns)
}

// Package replayer sends stored messages again: find, preview, publish, checkpoint. It
// publishes a message, then its `replayed` event, then saves the checkpoint of the
// job: a crash may send a message twice and never loses one.
//
// A job is a document in the store. Its runner holds an exclusive queue on the
// connection on which it publishes, so a job never has two runners. This sends the
// failed orders to the queue that failed:
//
//	store, err := elastic.Open(elastic.Config{URLs: []string{"http://localhost:9200"}})
//	if err != nil {
//		return err
//	}
//	r := replayer.New(replayer.Config{Connection: rabbitmq.Connection{URL: "amqp://localhost"}, Store: store, Jobs: store})
//	plan, err := r.Plan(ctx, replayer.Job{
//		Query: "action: poisoned and queue: orders", Target: replayer.Target{Kind: replayer.ToFailedQueue}, Operator: "ada",
//	})
//	if err != nil {
//		return err
//	}
//	job, err := r.Create(ctx, plan) // show the plan before
//	if err != nil {
//		return err
//	}
//	_, err = r.Run(ctx, job.ID, replayer.RunOptions{})
//	return err
//
// The exchanges of Watership must exist, and an indexer must run: without it the next
// plan does not know the sent messages. To try one message again after a pause, use the
// retries of a pipeline.
package replayer

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"go.opentelemetry.io/otel/trace"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/replayer/internal/planbroker"
	"github.com/watershipmq/watership/replayer/transform"
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

	// Job returns the stored document of a job; nil if none exists.
	Job(ctx context.Context, id string) (document []byte, version string, err error)

	// Jobs yields all jobs that were created before the call, the highest id first.
	Jobs(ctx context.Context) iter.Seq2[[]byte, error]
}

// Config has the store and the broker of a Replayer. Store and Jobs are required.
// Without a URL a Replayer plans by the store alone, and runs no job.
type Config struct {
	Store Store
	Jobs  Jobs

	// Connection is opened and closed by each plan and each run. Its TLS and Dial are of the management API, too. Messages
	// have the user of the URL as their user_id.
	rabbitmq.Connection

	// ManagementURL is RabbitMQ's HTTP API with a login, which reports whether the messages
	// of a plan would reach a queue, and ManagementNodes are further nodes of it as host:port. "":
	// on the host of URL and its Nodes, with the same login.
	ManagementURL   string
	ManagementNodes []string

	UncheckedRoutes bool // plans do not find out whether messages would reach a queue

	// Opener opens the originals of redacted messages, as privacy.Redactor does. nil: plans with
	// redacted messages fail.
	Opener privacy.Opener

	Topology    schemas.Topology
	RouteQueues []string // the queues of the routes of a pipeline

	// StateKeys sign message states and events, as in pipeline.Config. Zero: no
	// signatures.
	StateKeys schemas.StateKeys

	// Fingerprints have the settings of every process of Watership in the virtual host.
	Fingerprints schemas.Fingerprints

	// TracerProvider makes a span of each message that is sent, linked to the attempt that its event is about. Nil: none.
	TracerProvider trace.TracerProvider

	// BareSpans: spans have the exchange, the queue and the fingerprint of a message, and neither its routing key and ids
	// nor texts of errors, as for a record that is redacted.
	BareSpans bool

	// Programs run the programs of jobs, which then have limits. Nil: this process runs them.
	Programs *transform.Processes

	// NewID generates the ids of jobs, which sort by time. Nil: ULIDs.
	NewID func() string

	// Retention is the time for which the store keeps `replayed` events. 0: unlimited.
	Retention time.Duration

	Logger *slog.Logger // logs losses of connections; nil: slog.Default
}

// Log is the state of the queue of events.
type Log struct {
	Events    int // that are not in the store yet
	Consumers int
	Unknown   bool
}

// Replayer plans and runs jobs.
type Replayer struct {
	jobs
	cfg           Config
	login         string
	planBroker    func(context.Context, Target) (planbroker.Broker, error)
	recordTimeout time.Duration
}

// New returns a Replayer. It opens no connection.
func New(cfg Config) *Replayer {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.NewID == nil {
		cfg.NewID = watermill.NewULID
	}
	return &Replayer{jobs: jobs{cfg.Jobs, time.Now}, cfg: cfg, login: cfg.login(), planBroker: cfg.askBroker, recordTimeout: recordTimeout}
}

// withRetries returns a replayer that repeats reads while the store is unavailable or
// overloaded, until the timeout.
func (r *Replayer) withRetries(timeout time.Duration) *Replayer {
	retrying := *r
	retrying.cfg.Store = storeread.Events{EventReader: r.cfg.Store, Timeout: timeout}
	retrying.jobs.store = storeread.Jobs{JobStore: r.jobs.store, Timeout: timeout}
	return &retrying
}

// recordTimeout is the longest time that Plan and a resumed job wait for `replayed`
// events of messages sent before.
const recordTimeout = 10 * time.Second

// sign signs the state of a message if there are keys.
func (c Config) sign(m rabbit.Message) rabbit.Message {
	verifier := wire.Verifier{Topology: c.Topology, Keys: c.StateKeys}
	m.Publishing = verifier.Sign(m.Exchange, m.RoutingKey, m.Publishing)
	return m
}

// Package replayer sends messages that the store has kept to where they came
// from: find, preview, publish. A message goes out first, then the `replayed`
// event that says so.
package replayer

import (
	"context"
	"iter"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// Store is where messages are found.
type Store interface {
	// Events reads what a selection matches, each from one stable view.
	Events(ctx context.Context, selection schemas.Selection) iter.Seq2[schemas.Event, error]

	// HighestSequence is the highest event.sequence stored.
	HighestSequence(ctx context.Context) (int64, error)
}

// Publisher publishes with confirms, in the order of its calls.
type Publisher interface {
	Send(ctx context.Context, m rabbit.Message) (*rabbit.Pending, error)
}

// Hop takes a message to the queue state.Queue.
type Hop interface {
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

// Config says where messages are found and how they are sent. Every field but
// Routes is needed.
type Config struct {
	Store     Store
	Publisher Publisher
	Hop       Hop
	Routes    Routes // nil: routes are not checked
	Topology  schemas.Topology
	Login     string // the user_id that the broker lets us restore
	NewID     func() string
}

// Target says where messages are sent.
type Target int

// Messages go to the exchange and routing key they were first published to, or
// to the queue that failed alone.
const (
	ToOrigin Target = iota
	ToFailedQueue
)

// Job is one replay.
type Job struct {
	ID     string // "": Plan gives one
	Query  query.Node
	Target Target
	Limit  int     // messages; 0: all
	Rate   float64 // messages a second; 0: as fast as the broker confirms
	UpTo   int64   // highest sequence; 0: Plan takes the highest stored
}

// Replayer plans and runs jobs.
type Replayer struct {
	cfg Config
	now func() time.Time
}

// New connects to nothing.
func New(cfg Config) *Replayer { return &Replayer{cfg: cfg, now: time.Now} }

func (j Job) selection(withoutBody bool) schemas.Selection {
	return schemas.Selection{Query: j.Query, Order: schemas.BySequence, UpTo: j.UpTo, WithoutBody: withoutBody}
}

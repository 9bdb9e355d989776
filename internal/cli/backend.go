package cli

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/client"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/adoptions"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline/bodyschema"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// backend is a RabbitMQ system with its store of events. Commands use it by its servers
// (direct), or through the HTTP API of a watership serve (remote).
type backend interface {
	operations
	reader
	replayJobs
	subscriber
	adopter

	// Publish publishes messages in order, at most perSecond (0: no limit),
	// and returns how many are confirmed.
	Publish(ctx context.Context, messages iter.Seq2[schemas.Envelope, error], perSecond float64, progress func(confirmed int)) (int, error)

	Queues(ctx context.Context) []string    // for completion, without Watership's
	Exchanges(ctx context.Context) []string // likewise
	Retention() time.Duration               // of published and handled events; 0: for ever
	Close() error
}

// operations does what operators do, by its declarations.
type operations interface {
	operation.Via
	Texts(node kql.Node) (query, dsl string, err error) // a query as an operation takes it
	PageSize() int                                      // maximum number of items of a page
}

// language reads queries and the names of fields.
type language interface {
	ParseQuery(text string) (kql.Node, error)
	Fields() (kql.Fields, error)
	Field(name string) (kql.Field, error)
	DocumentFormat() schemas.DocumentFormat
	Aggregate(ctx context.Context, events system.Counts, sel eventstore.Selection, name string, n int) (kql.Field, eventstore.Aggregation, error)
}

// reader reads events. OpenStore comes first.
type reader interface {
	language
	system.Counts
	OpenStore(ctx context.Context) error

	// Validate checks bodies with a schema; nil: with the schema of a queue's route.
	Validate(ctx context.Context, schema *bodyschema.Schema, queue string, sel eventstore.Selection, each func(messages.InvalidMessage) error) (messages.Summary, error)

	Check(ctx context.Context) error // the reason why nothing was found; nil: there is nothing
	Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error]
	Count(ctx context.Context, sel eventstore.Selection) (int64, error)
	Export(ctx context.Context, sel eventstore.Selection) (iter.Seq2[schemas.Event, error], error)
	Follow(ctx context.Context, sel eventstore.Selection, last int, to history.Receiver) error
	Messages(ctx context.Context, id string) (list []foundMessage, more bool, err error)
	Stream(ctx context.Context, id string, limit int) (history.Stream, error) // limit 0: all messages
	Whole(ctx context.Context, of schemas.Event) (schemas.Event, error)       // all fields but the body
	Body(ctx context.Context, id string) ([]byte, error)
	MayReadBodies() bool
}

// subscriber delivers events while a command runs.
type subscriber interface {
	// FollowTo delivers the events of a query to a queue until ctx ends, without a record.
	FollowTo(ctx context.Context, query, queue string, progress func(subscription.Checkpoint)) error
}

// adopter takes in the failed messages of other systems.
type adopter interface {
	Adopt(ctx context.Context, r adoptions.Request, follow bool) (adoptions.Result, error)
}

// replayJobs plans and runs jobs.
type replayJobs interface {
	Plan(ctx context.Context, request replays.Request, uncheckedRoutes bool) (client.Plan, error)

	// Start creates the job of a plan and runs it to its end, or pauses it after so
	// many messages (0: not). The job has no id if it could not be created.
	Start(ctx context.Context, plan client.Plan, stopAfter int, progress func(replayer.Job)) (replayer.Job, error)

	// Resume runs the rest of a job.
	Resume(ctx context.Context, job replayer.Job, progress func(replayer.Job)) (replayer.Job, error)
}

// foundMessage is a message with its history.
type foundMessage struct {
	history.Life
	Event schemas.Event // with the whole message, if there is one
}

// severalError reports that several messages have an id.
type severalError struct{ id string }

// Error implements error.
func (e *severalError) Error() string { return fmt.Sprintf("%q is the id of several messages", e.id) }

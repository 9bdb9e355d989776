package cli

import (
	"context"
	"errors"
	"iter"

	"github.com/watershipmq/watership/internal/operation/code"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/httpapi"
	"github.com/watershipmq/watership/internal/operate/adoptions"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/pipeline/bodyschema"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// backend is a RabbitMQ system with its store of events. Commands use it by its servers
// (direct), or through the HTTP API of a watership serve (remote).
type backend interface {
	operations
	language
	streams

	Server() httpapi.Version                // its settings, and the rights of the caller
	Queues(ctx context.Context) []string    // for completion, without Watership's
	Exchanges(ctx context.Context) []string // likewise
	Close() error
}

// operations does what operators do, by its declarations.
type operations interface {
	operation.Via
	Texts(node kql.Node) (query, dsl string, err error) // a query as an operation takes it
	PageSize(most int) int                              // of an operation whose pages have at most so many items
}

// language reads queries and the names of fields.
type language interface {
	ParseQuery(text string) (kql.Node, error)
	Fields() (kql.Fields, error)
	Field(name string) (kql.Field, error)
	DocumentFormat() schemas.DocumentFormat
}

// streams are the inputs and outputs of commands that grow while they run.
type streams interface {
	// Events yields the events of a selection, those of eventstore.BySequence without later ones. An
	// *eventstore.Error ends them, such as the reason why there are none.
	Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error]

	// Follow passes the newest events, at most last, and then each new one, until ctx ends.
	Follow(ctx context.Context, sel eventstore.Selection, last int, to history.Receiver) error

	// FollowTo delivers the events of a query to a queue until ctx ends, without a record.
	FollowTo(ctx context.Context, query, queue string, progress func(subscription.Checkpoint)) error

	// Watch reports a job that was started or resumed until it stops, or has sent stopAfter messages
	// (0: all). It runs a job of this process.
	Watch(ctx context.Context, job replayer.Job, stopAfter int, progress func(replayer.Job)) (replayer.Job, error)

	// Validate checks bodies with a schema; nil: with the schema of a queue's route.
	Validate(ctx context.Context, schema *bodyschema.Schema, queue string, sel eventstore.Selection, each func(messages.InvalidMessage) error) (messages.Summary, error)

	// Adopt takes in the failed messages of an error queue or, to follow it, each new message until ctx ends.
	Adopt(ctx context.Context, r adoptions.Request, follow bool) (adoptions.Result, error)

	// Publish publishes messages in order, at most perSecond (0: no limit),
	// and returns how many are confirmed.
	Publish(ctx context.Context, messages iter.Seq2[schemas.Envelope, error], perSecond float64, progress func(confirmed int)) (int, error)
}

// isRefused reports whether an operation has a problem with a code.
func isRefused(err error, with code.Code) bool {
	var refused *problem.Problem
	return errors.As(err, &refused) && refused.Code == with
}

// endOfList is an error that ends a list, as an *eventstore.Error does, and concerns no item of it.
type endOfList struct{ error }

// Unwrap returns the errors that it counts as.
func (e endOfList) Unwrap() []error {
	return []error{&eventstore.Error{Reason: e.Error()}, e.error}
}

package cli

import (
	"cmp"
	"context"
	"iter"
	"strings"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/messages"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operate/transfer"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// streams are the inputs and outputs of commands that grow while they run.
type streams interface {
	// Events yields the events of a selection; in the order of eventstore.BySequence no later ones follow. An
	// *eventstore.Error ends them, such as the reason why there are none.
	Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error]

	// Originals is Events in the order of eventstore.BySequence, with messages as they were published. Those whose
	// original cannot be opened stay redacted.
	Originals(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error]

	// Follow passes the newest events, at most last, and then each new one, until ctx ends.
	Follow(ctx context.Context, sel eventstore.Selection, last int, to history.Receiver) error

	// Watch reports a job that was started or resumed until it stops, or has sent stopAfter messages
	// (0: all). It runs a job of this process.
	Watch(ctx context.Context, job replayer.Job, stopAfter int, progress func(replayer.Job)) (replayer.Job, error)

	// Validate checks bodies with the schema of a queue's route.
	Validate(ctx context.Context, queue string, sel eventstore.Selection, each func(messages.InvalidMessage) error) (messages.Summary, error)

	// Publish publishes messages in order, at most perSecond (0: no limit),
	// and returns how many are confirmed.
	Publish(ctx context.Context, messages iter.Seq2[schemas.Envelope, error], perSecond float64, progress func(confirmed int)) (int, error)
}

// Events implements streams.
func (l *local) Events(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		store, err := l.Store(ctx)
		if err == nil && sel.Order == eventstore.BySequence {
			sel, err = transfer.ExportSelection(ctx, store, sel)
		}
		if err != nil {
			yield(schemas.Event{}, endOfList{err})
			return
		}
		found := false
		for e, err := range store.Events(ctx, sel) {
			if found = true; !yield(e, err) {
				return
			}
		}
		if !found {
			if err := store.Check(ctx); err != nil {
				yield(schemas.Event{}, endOfList{err})
			}
		}
	}
}

// Originals implements streams.
func (l *local) Originals(ctx context.Context, sel eventstore.Selection) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		f := queryFilter(sel.Query)
		originals, err := messages.ReadOriginals(l.reading(ctx), l.System, cmp.Or(strings.TrimSpace(f.Query+" "+f.DSL), "*"))
		if err != nil {
			yield(schemas.Event{}, endOfList{refused(err)})
			return
		}
		for e, err := range l.Events(ctx, sel) {
			if err == nil {
				e, err = originals.Of(ctx, e)
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// endOfList is an error that ends a list, as an *eventstore.Error does, and concerns no item of it.
type endOfList struct{ error }

// Unwrap returns the errors that it counts as.
func (e endOfList) Unwrap() []error {
	return []error{&eventstore.Error{Reason: e.Error()}, e.error}
}

// Follow implements streams.
func (l *local) Follow(ctx context.Context, sel eventstore.Selection, last int, to history.Receiver) error {
	store, err := l.Store(ctx)
	if err != nil {
		return err
	}
	return history.Follow(ctx, store, sel, last, to)
}

// Watch implements streams.
func (l *local) Watch(ctx context.Context, job replayer.Job, stopAfter int, progress func(replayer.Job)) (replayer.Job, error) {
	return replays.ByWatcher{}.Watch(ctx, l.System, job, stopAfter, progress)
}

// Validate implements streams.
func (l *local) Validate(ctx context.Context, queue string, sel eventstore.Selection, each func(messages.InvalidMessage) error) (messages.Summary, error) {
	schema, err := messages.RouteSchema(l.System, queue)
	if err != nil {
		return messages.Summary{}, err
	}
	return messages.Stored(ctx, l.System, messages.ValidationConfig{Schema: schema}, sel, each)
}

// Publish implements streams.
func (l *local) Publish(ctx context.Context, messages iter.Seq2[schemas.Envelope, error], perSecond float64, progress func(confirmed int)) (int, error) {
	publisher, err := l.Publisher(ctx)
	if err != nil {
		return 0, err
	}
	toSend := func(yield func(rabbit.Message, error) bool) {
		for e, err := range messages {
			if !yield(transfer.ForLogin(e, l.Login()), err) {
				return
			}
		}
	}
	return transfer.Publish(ctx, publisher, toSend, perSecond, progress)
}

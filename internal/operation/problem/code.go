package problem

import (
	"context"
	"errors"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/transform"
	"github.com/watershipmq/watership/subscription"
)

// codeOf returns the code of an error. An error may wrap several that have one: the first counts.
func codeOf(ctx context.Context, err error) code.Code {
	var refused *access.Error
	var store *eventstore.Error
	var message *rabbit.RefusedError
	switch {
	case errors.As(err, &refused):
		return refused.Code
	case is[*access.BodySearchError](err):
		return code.Forbidden
	case is[*kql.SyntaxError](err):
		return code.InvalidQuery
	case is[*kql.FieldError](err):
		return code.InvalidField
	case is[system.InputError](err):
		return code.InvalidRequest
	case is[*replayer.NoJobError](err), is[*history.NotFoundError](err), is[*history.NoStreamError](err), is[*subscription.NotFoundError](err):
		return code.NotFound
	case is[*replayer.UncheckedError](err):
		return code.RoutesUnchecked
	case is[*replayer.BusyError](err), is[*replayer.TakenOverError](err):
		return code.IsRunning
	case is[*privacy.ErasedError](err):
		return code.Erased
	case errors.As(err, &store): // also where keys of subjects cannot be read
		return codeOfStore(store)
	case is[*replayer.NoReportsError](err), is[*replayer.NoStreamsError](err), is[*transform.LimitError](err), is[*privacy.RedactedError](err):
		return code.Conflict
	case is[*system.BrokerError](err), errors.Is(err, rabbit.ErrNoConnection):
		return code.BrokerUnavailable
	case is[*rabbit.NackedError](err):
		return code.QueueFull
	case errors.As(err, &message) && message.Code == amqp.AccessRefused:
		return code.BrokerRefused
	case ctx.Err() != nil:
		return code.TimedOut
	}
	return code.Internal
}

// is reports whether an error is or wraps one of a type.
func is[E error](err error) bool {
	_, found := errors.AsType[E](err)
	return found
}

func codeOfStore(err *eventstore.Error) code.Code {
	switch err.Kind {
	case eventstore.Unavailable, eventstore.Overloaded:
		return code.StoreUnavailable
	case eventstore.Unauthorized:
		return code.StoreRefused
	}
	return code.InvalidQuery
}

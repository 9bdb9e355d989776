package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operate/routes/queuepolicy"
	"github.com/watershipmq/watership/internal/operation/code"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/subscription"
)

// pageOf names the page of the documentation that explains an error; "" if its text says all.
func pageOf(err error) string {
	var store *eventstore.Error
	switch {
	case is[*system.BrokerError](err), errors.Is(err, rabbit.ErrNoConnection), errors.As(err, &store) && store.Kind != eventstore.BadRequest:
		return "\nwatership doctor names the remedy; watership help troubleshooting has causes"
	case isRefused(err, code.PlanRefused), isRefused(err, code.RoutesUnchecked), isRefused(err, code.ExpectMismatch), is[*replays.PlanError](err), is[*replayer.UncheckedError](err):
		return "\nwatership help troubleshooting has causes, below A replay"
	case is[*replayer.NoReportsError](err), is[*replayer.StoppedError](err):
		return "\nwatership help replays says what a replay waits for"
	case is[*queuepolicy.RefusedError](err):
		return "\nwatership help coming-from says how a queue gets retries that has others today"
	case isRefused(err, code.Erased), is[*privacy.RedactedError](err):
		return "\nwatership help privacy says who can send and read it"
	case isRefused(err, code.Unauthenticated), isRefused(err, code.Forbidden), isRefused(err, code.NeedsReason), isRefused(err, code.NeedsApproval):
		return "\nwatership help people says what roles and permissions are for"
	case is[*kql.SyntaxError](err), isRefused(err, code.InvalidQuery):
		return "\nwatership help query describes the language"
	}
	return ""
}

func is[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// wordsOf returns the text of an error, with the names of flags and the zone of this process.
func wordsOf(err error) string {
	const unchecked = "--unchecked-routes"
	var field *system.FieldError
	var empty *system.EmptyPeriodError
	var refused *replays.PlanError
	var unknown *replayer.UncheckedError
	var noGroup *failures.NotFoundError
	var noStream *history.NoStreamError
	var noJob *replayer.NoJobError
	var busy *replayer.BusyError
	var takenOver *replayer.TakenOverError
	var unrecorded *replayer.UnrecordedError
	var noSubscription *subscription.NotFoundError
	switch {
	case errors.As(err, &field):
		return inText(err, field, field.Text(flagOf))
	case errors.As(err, &empty):
		return inText(err, empty, fmt.Sprintf("no event can match: the period begins at %s and ends at %s", terminal.Time(empty.Begin), terminal.Time(empty.End)))
	case errors.As(err, &refused) && refused.Code == replays.Unroutable:
		return inText(err, refused, refused.Error()+": "+refused.Remedy(unchecked))
	case errors.As(err, &unknown):
		return inText(err, unknown, unknown.Error()+", or go on with "+unchecked)
	case errors.As(err, &noGroup):
		return inText(err, noGroup, noGroup.Error()+": watership failed --muted lists them")
	case errors.As(err, &noStream):
		return inText(err, noStream, noStream.Error()+"; watership search --by stream.id lists streams")
	case errors.As(err, &noJob):
		return inText(err, noJob, noJob.Error()+": watership jobs list lists them")
	case errors.As(err, &busy):
		return inText(err, busy, busy.Error()+": wait, or stop it with watership jobs cancel "+busy.ID)
	case errors.As(err, &takenOver):
		return inText(err, takenOver, takenOver.Error()+": see watership jobs show "+takenOver.ID)
	case errors.As(err, &unrecorded):
		return inText(err, unrecorded, unrecorded.Error()+" with watership jobs resume "+unrecorded.ID)
	case errors.As(err, &noSubscription):
		return inText(err, noSubscription, noSubscription.Error()+": watership subscriptions list lists them")
	}
	return err.Error()
}

// inText returns the text of an error, with another text of an error that it wraps.
func inText(err, wrapped error, text string) string {
	return strings.Replace(err.Error(), wrapped.Error(), text, 1)
}

func flagOf(field system.Field) string {
	return "--" + strings.ReplaceAll(string(field), "_", "-")
}

package app

import (
	"context"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/waiting"
)

// DecideWaiting carries out a decision about waiting messages. It returns once the store
// has the events of the messages, or after ten seconds with the number of those that it
// does not have yet.
func (a *App) DecideWaiting(ctx context.Context, d waiting.Decision, messages []waiting.Message) (result waiting.Result, missing int, err error) {
	if err := CheckWaitingDecision(d, time.Now()); err != nil || len(messages) == 0 {
		return result, 0, err
	}
	events, err := a.Store(ctx)
	if err != nil {
		return result, 0, err
	}
	if _, err := a.Dial(ctx); err != nil { // explains why there is no connection
		return result, 0, err
	}
	broker := a.brokerConfig("deciding about waiting messages")
	broker.Logger = a.logger
	result, err = waiting.Control{Topology: a.topology, Broker: broker, Records: events}.Decide(ctx, d, messages)
	if err != nil {
		return result, 0, err
	}
	missing, err = waiting.AwaitRecorded(ctx, events, result)
	return result, missing, err
}

// CheckWaitingDecision returns an InputError for a decision that cannot be carried out.
func CheckWaitingDecision(d waiting.Decision, now time.Time) error {
	postpones := d.Action == waiting.Postpone
	switch {
	case d.Action != waiting.Now && d.Action != waiting.Cancel && !postpones:
		return inputErrorf("action %q: expected now, postpone or cancel", d.Action)
	case strings.TrimSpace(d.Reason) == "":
		return inputErrorf("expected a reason")
	case !postpones && !d.NotBefore.IsZero():
		return inputErrorf("%s has no time: only an attempt that is postponed has one", d.Action)
	case postpones && !d.NotBefore.After(now):
		return inputErrorf("the time to which attempts are postponed must be in the future")
	case postpones && d.NotBefore.Sub(now) > waiting.MaxPostponement:
		return inputErrorf("attempts can be postponed by up to %d days", int(waiting.MaxPostponement/(24*time.Hour)))
	}
	return nil
}

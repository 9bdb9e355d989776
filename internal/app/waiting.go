package app

import (
	"context"
	"time"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/waiting"
)

// DecideWaiting carries out a decision about waiting messages. It returns once the store
// has the events of the messages, or after ten seconds with the number of those that it
// does not have yet.
func (a *App) DecideWaiting(ctx context.Context, d waiting.Decision, messages []waiting.Message) (result waiting.Result, missing int, err error) {
	if err := d.Check(time.Now()); err != nil {
		return result, 0, InputError{err}
	} else if len(messages) == 0 {
		return result, 0, nil
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
	control := waiting.Control{Topology: a.topology, Broker: broker, Records: events}
	if result, err = control.Decide(ctx, d, messages); err != nil {
		return result, 0, err
	}
	missing, err = history.AwaitStored(ctx, events, result.Events)
	return result, missing, err
}

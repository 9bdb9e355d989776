package waiting

import (
	"context"
	"time"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/system"
)

// Decide carries out a decision about waiting messages. It returns once the store
// has the events of the messages, or after ten seconds with the number of those that it
// does not have yet.
func Decide(ctx context.Context, sys *system.System, d Decision, messages []WaitingMessage) (result Result, missing int, err error) {
	if err := d.Check(time.Now()); err != nil {
		return result, 0, system.InputError{Err: err}
	} else if len(messages) == 0 {
		return result, 0, nil
	}
	events, err := sys.Store(ctx)
	if err != nil {
		return result, 0, err
	}
	if _, err := sys.Dial(ctx); err != nil { // explains why there is no connection
		return result, 0, err
	}
	broker := sys.Broker("deciding about waiting messages")
	broker.Logger = sys.Logger()
	control := Control{Topology: sys.Topology(), Broker: broker, Records: events}
	for _, policy := range sys.Settings().Retry.Policies {
		control.Delays = append(control.Delays, policy.AllDelays()...)
	}
	if result, err = control.Decide(ctx, d, messages); err != nil {
		return result, 0, err
	}
	missing, err = history.AwaitStored(ctx, events, result.Events)
	return result, missing, err
}

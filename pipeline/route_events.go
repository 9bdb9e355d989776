package pipeline

import (
	"context"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline/internal/admission/breaker"
	"github.com/watershipmq/watership/schemas"
)

// PausedEvery is how often a route that stays paused has a `paused` event, so that the
// newest event reports whether the route is still paused.
const PausedEvery = breaker.PausedEvery

// recordTimeout bounds the publish of a route's event. The log has it, too.
const recordTimeout = 10 * time.Second

// recordRoute publishes the event of a route that was paused or resumed.
func (f *messageFlow) recordRoute(ctx context.Context, action schemas.Action, since time.Time, why schemas.Failure) {
	none := schemas.Envelope{}
	state := schemas.State{
		Fingerprint: none.Fingerprint(), EventID: f.newID(), Queue: f.queue, Time: f.now(), FirstFailed: since, Failure: why,
	}
	if action == schemas.Resumed {
		state.Duration = state.Time.Sub(since)
	}
	publishing, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	m := rabbit.Message{Exchange: f.topology.Events(), RoutingKey: string(action), Publishing: f.frameMax().Wrap(none, state)}
	if err := f.publisher.Publish(publishing, m); err != nil {
		if publishing.Err() == nil {
			f.logger.Warn("cannot publish the event of a paused or resumed route", "queue", f.queue, "error", err)
		}
		return
	}
	f.callHook(ctx, action, none, state)
}

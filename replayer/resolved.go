package replayer

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// resolutions are the events of the messages on a page that say that a failure is
// dealt with, by fingerprint.
type resolutions map[string][]schemas.Event

// resolutions looks them up as they were when the job was planned, so that a
// resumed job decides as it did before. A job that sends to a place of its own
// is not about the failures, and neither is one that was told to send again.
func (r *Replayer) resolutions(ctx context.Context, job Job, page []found) (resolutions, error) {
	back := job.Target.Kind == ToOrigin || job.Target.Kind == ToFailedQueue
	failed := ofMessages(page, func(f found) bool { return isFailure(f.event) })
	if job.Again || !back || failed == nil {
		return nil, nil
	}
	selection := schemas.Selection{
		Query: both(eitherHappened(schemas.Handled, schemas.Discarded), failed),
		UpTo:  job.UpTo, Order: schemas.BySequence, WithoutBody: true,
	}
	known := resolutions{}
	err := r.each(ctx, selection, func(e schemas.Event) { known[e.Fingerprint] = append(known[e.Fingerprint], e) })
	if err != nil {
		return nil, fmt.Errorf("looking up which failures are resolved: %w", err)
	}
	return known, nil
}

// eitherHappened finds events of actions, also those that were quarantined.
func eitherHappened(actions ...schemas.Action) query.Node {
	var either query.Or
	for _, action := range actions {
		either = append(either, is("event.action", string(action)), is("watership.quarantined_action", string(action)))
	}
	return either
}

func isFailure(e schemas.Event) bool {
	return facts(e) == schemas.Poisoned || facts(e) == schemas.RetryScheduled
}

// reason says how a failure was resolved, "" if it was not. The same message may
// have been published again since, which resolves nothing.
func (known resolutions) reason(failure schemas.Event) (leftOut string) {
	if !isFailure(failure) {
		return ""
	}
	for _, e := range known[failure.Fingerprint] {
		sameInstance := e.Message != "" && e.Message == failure.Message
		switch {
		case e.Queue != failure.Queue || e.Sequence <= failure.Sequence:
		case facts(e) == schemas.Discarded && (sameInstance || e.ReplayOf == failure.EventID):
			return discardedSince
		case facts(e) == schemas.Handled && (sameInstance || sameReplay(e, failure)):
			return handledSince
		}
	}
	return ""
}

// sameReplay: what a job sent of a message with an id was handled.
func sameReplay(handled, failure schemas.Event) bool {
	return handled.ReplayOf != "" && failure.Envelope.Properties.MessageID != ""
}

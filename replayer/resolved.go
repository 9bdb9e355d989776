package replayer

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// resolutions are the events of the messages on a page that say that a failure is
// dealt with, or that a replay of it failed, by fingerprint and in their order.
type resolutions map[string][]schemas.Event

// resolutions looks them up as they were when the job was planned, so that a
// resumed job decides as it did before. A job that sends to a place of its own
// is not about the failures, and neither is one that was told to send again.
func (r *Replayer) resolutions(ctx context.Context, job Job, page []found) (resolutions, error) {
	back := job.Target.Kind == ToOrigin || job.Target.Kind == ToFailedQueue
	messages := ofMessages(page, func(f found) bool { return isFailure(f.event) })
	if job.Again || !back || messages == nil {
		return nil, nil
	}
	originals, replays := replaysOf(page)
	selection := schemas.Selection{
		Query: both(query.Or{eitherHappened(schemas.Handled, schemas.Discarded), failedReplay()}, query.Or{messages, replays}),
		UpTo:  job.UpTo, Order: schemas.BySequence, WithoutBody: true,
	}
	known := resolutions{}
	err := r.each(ctx, selection, func(e schemas.Event) {
		message := cmp.Or(originals[e.ReplayOf], e.Fingerprint)
		known[message] = append(known[message], e)
	})
	if err != nil {
		return nil, fmt.Errorf("looking up which failures are resolved: %w", err)
	}
	return known, nil
}

// replaysOf finds what was sent for the failures on a page. Where a job changed its
// headers, it has another fingerprint than the message; originals has that of the
// message, by the id of the failure.
func replaysOf(page []found) (originals map[string]string, replays query.Or) {
	originals = map[string]string{}
	for _, f := range page {
		if f.err == nil && isFailure(f.event) {
			originals[f.event.EventID] = f.event.Fingerprint
			replays = append(replays, is("watership.replay.of", f.event.EventID))
		}
	}
	return originals, replays
}

// failedReplay finds failures of what a job sent.
func failedReplay() query.Node {
	return query.And{eitherHappened(schemas.Poisoned), query.Exists{Field: query.Pattern{"watership.replay.of"}}}
}

func isFailure(e schemas.Event) bool {
	return facts(e) == schemas.Poisoned || facts(e) == schemas.RetryScheduled
}

// reason says how a failure was resolved, "" if it was not. The same message may
// have been published again since, which resolves nothing. Where a replay failed
// again, what resolves that failure resolves the one that it was sent for.
func (known resolutions) reason(failure schemas.Event) (leftOut string) {
	if !isFailure(failure) {
		return ""
	}
	line := []schemas.Event{failure}
	for _, e := range known[failure.Fingerprint] {
		newest := line[len(line)-1]
		switch {
		case e.Queue != failure.Queue || e.Sequence <= failure.Sequence:
		case slices.ContainsFunc(line, func(f schemas.Event) bool { return discards(e, f) }):
			return discardedSince
		case slices.ContainsFunc(line, func(f schemas.Event) bool { return settles(e, f) }):
			return handledSince
		case isFailure(e) && sameReplay(e, newest):
			line = append(line, e)
		}
	}
	return ""
}

func discards(e, failure schemas.Event) bool {
	return facts(e) == schemas.Discarded && (sameInstance(e, failure) || e.ReplayOf == failure.EventID)
}

func settles(e, failure schemas.Event) bool {
	return facts(e) == schemas.Handled && (sameInstance(e, failure) || sameReplay(e, failure))
}

func sameInstance(e, failure schemas.Event) bool {
	return e.Message != "" && e.Message == failure.Message
}

// sameReplay: the event is of what a job sent for the failure, or of a message with
// an id, which is the same whichever of its events was replayed.
func sameReplay(e, failure schemas.Event) bool {
	return e.ReplayOf != "" && (e.ReplayOf == failure.EventID || failure.Envelope.Properties.MessageID != "")
}

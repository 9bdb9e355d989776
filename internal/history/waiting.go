package history

import (
	"context"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

const (
	// waitingSince is how long ago the failure of a message may be that waits for its next attempt.
	waitingSince = 24 * time.Hour

	// maxKeySteps is how many of the newest events of a key are read, and maxKeyFailures how many of its
	// failures: it is asked every few seconds for each message that waits.
	maxKeySteps    = 2000
	maxKeyFailures = 200
)

// failedMessage is a message that failed, from the events of its key that are read.
type failedMessage struct {
	newest schemas.Event
	first  time.Time // of the oldest event
}

// Unhandled reports whether an earlier message of a key, which is the value of a field, failed at a
// queue, and was neither handled nor discarded since: it was given up, or has waited for its next
// attempt for at most a day. earlier is called with the envelope of a message, without its body,
// and the time of its first failure. The message with a fingerprint is left out.
func Unhandled(ctx context.Context, store EventStore, queue string, key kql.Is, fingerprint string, earlier func(e schemas.Envelope, failed time.Time) bool) (bool, error) {
	ofKey := kql.And{kql.FieldIs("watership.queue", queue), key}
	messages, err := failedMessages(ctx, store, ofKey)
	if err != nil {
		return false, err
	}
	for of, m := range messages {
		waits := m.newest.RecordedAction() == schemas.RetryScheduled && time.Since(m.newest.Time) < waitingSince
		if waits && of != fingerprint && earlier(m.newest.Envelope, m.first) {
			return true, nil
		}
	}
	looked := 0
	for failure, err := range (Failures{Store: store}).Open(ctx, ofKey) {
		if looked++; err != nil || looked > maxKeyFailures {
			return false, err
		}
		if failure.Fingerprint == fingerprint {
			continue
		}
		m, known := messages[failure.Fingerprint]
		if !known {
			if m, err = failedAt(ctx, store, failure.EventID); err != nil {
				return false, err
			}
		}
		if earlier(m.newest.Envelope, m.first) {
			return true, nil
		}
	}
	return false, nil
}

// failedMessages returns the messages of the newest steps of a key, by fingerprint.
func failedMessages(ctx context.Context, store EventStore, ofKey kql.Node) (map[string]failedMessage, error) {
	steps := eventstore.Selection{
		Query: kql.And{ofKey, withActions(schemas.RetryScheduled, schemas.Handled, schemas.Poisoned)},
		Order: eventstore.NewestFirst, Limit: maxKeySteps, WithoutBody: true,
	}
	messages := map[string]failedMessage{}
	for step, err := range storeread.Readable(store.Events(ctx, steps)) {
		if err != nil {
			return nil, err
		}
		m, known := messages[step.Fingerprint]
		if !known {
			m.newest = step
		}
		m.first = step.Time
		messages[step.Fingerprint] = m
	}
	return messages, nil
}

func failedAt(ctx context.Context, store EventStore, id string) (failedMessage, error) {
	for e, err := range store.Events(ctx, eventstore.Selection{Query: kql.FieldIs("event.id", id), Limit: 1, WithoutBody: true}) {
		return failedMessage{e, e.Time}, err
	}
	return failedMessage{}, nil
}

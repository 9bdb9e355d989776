package replayer

import (
	"context"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/replayer/internal/lineage"
	"github.com/watershipmq/watership/schemas"
)

// identity is the key of a message at the target. A message with an id is identified
// by its fingerprint; one without an id by its `published` event, or else by its
// instance. first is the original event of a chain of replays: the events of replays
// concern the same message, even with other headers or another routing key.
func (t Target) identity(e, first eventstore.EventSummary) storeread.Key {
	place := t.scope(e)
	switch {
	case first.MessageID != "":
		return storeread.Of("id", first.Fingerprint, place)
	case first.Action == schemas.Published, first.Message == "":
		return storeread.Of("event", first.EventID, place)
	}
	return storeread.Of("instance", first.Message, place)
}

// identify sets the message key of each candidate on a page.
func identify(ctx context.Context, store Store, target Target, page []candidate) error {
	var events []eventstore.EventSummary
	for i := range page {
		if c := &page[i]; c.err == nil {
			events = append(events, c.summary)
		}
	}
	replays, err := lineage.Read(ctx, store, events)
	if err != nil {
		return err
	}
	for i := range page {
		c := &page[i]
		first := replays.First(c.summary)
		c.messageKey, c.originFingerprint = target.identity(c.summary, first), first.Fingerprint
	}
	return nil
}

package history

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// Origin is the exchange and routing key where a message was published first.
type Origin struct{ Fingerprint, Exchange, RoutingKey string }

// OriginOf returns the origin of an event's message.
func OriginOf(e schemas.Event) Origin {
	return Origin{e.Fingerprint, e.Envelope.Exchange, e.Envelope.RoutingKey}
}

// RemoveProven removes the origins at which the tap saw their messages, by the events up to
// a sequence.
func RemoveProven(ctx context.Context, store EventStore, origins map[Origin]bool, upTo int64) error {
	var either kql.Or
	for origin := range origins {
		either = append(either, kql.FieldIs("watership.fingerprint", origin.Fingerprint))
	}
	if len(either) == 0 {
		return nil
	}
	published := kql.Or{
		kql.FieldIs("event.action", string(schemas.Published)), kql.FieldIs("watership.quarantined_action", string(schemas.Published)),
	}
	selection := eventstore.Selection{Query: kql.And{published, either}, UpTo: upTo, WithoutBody: true}
	for event, err := range storeread.Readable(store.Events(ctx, selection)) {
		if err != nil {
			return fmt.Errorf("looking up where messages were published: %w", err)
		}
		if delete(origins, OriginOf(event)); len(origins) == 0 {
			break
		}
	}
	return nil
}

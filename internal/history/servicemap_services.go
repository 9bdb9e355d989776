package history

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// mapCauses is the number of the newest messages of handlers by which services are named.
const mapCauses = 500

// services names the services of queues by messages that handlers have published: such a message names the one that
// was handled, and its own publisher. A message that several queues have handled tells nothing.
func (m mapReader) services(ctx context.Context, causation string) (map[string]string, error) {
	publishers, err := m.causes(ctx, causation)
	if err != nil || len(publishers) == 0 {
		return nil, err
	}
	causes := slices.Sorted(maps.Keys(publishers))
	queues := map[string]string{} // by cause; "": several
	for s, err := range m.store.Summaries(ctx, m.selection(ofAction(schemas.Handled)),
		eventstore.FieldIn{Field: "messaging.message.id", Values: causes}, eventstore.FieldIn{Field: "watership.fingerprint", Values: causes}) {
		if err != nil {
			return nil, err
		}
		for _, cause := range []string{s.MessageID, s.Fingerprint} {
			if queue, seen := queues[cause]; seen && queue != s.Queue {
				queues[cause] = ""
			} else {
				queues[cause] = s.Queue
			}
		}
	}
	votes := map[string]map[string]int{} // by queue and publisher
	for _, cause := range causes {
		if queue := queues[cause]; queue != "" {
			if votes[queue] == nil {
				votes[queue] = map[string]int{}
			}
			votes[queue][publishers[cause]]++
		}
	}
	services := map[string]string{}
	for queue, of := range votes {
		services[queue] = mostVoted(of)
	}
	return services, nil
}

// causes returns the publishers of the newest messages of handlers, by the id or the fingerprint of the message that was
// handled.
func (m mapReader) causes(ctx context.Context, causation string) (map[string]string, error) {
	sel := m.selection(ofAction(schemas.Published), kql.Exists{Field: kql.Pattern{"headers." + causation}})
	sel.Limit, sel.WithoutBody = mapCauses, true
	publishers := map[string]string{}
	for e, err := range m.store.Events(ctx, sel) {
		var failed *eventstore.Error
		if errors.As(err, &failed) {
			return nil, err
		}
		if cause, named := e.Envelope.Headers[causation].(string); err == nil && named && e.Envelope.Properties.AppID != "" {
			publishers[cause] = e.Envelope.Properties.AppID
		}
	}
	return publishers, nil
}

// mostVoted returns the name with most votes, and of several the first.
func mostVoted(votes map[string]int) (first string) {
	for name, n := range votes {
		if n > votes[first] || n == votes[first] && name < first {
			first = name
		}
	}
	return first
}

package history

import (
	"context"
	"slices"

	"github.com/watershipmq/watership/schemas"
)

// messages reads what became of messages of a stream.
func (r *streamReader) messages(ctx context.Context, entries []*streamEntry, reporters Reporters) ([]StreamMessage, error) {
	messages := make([]StreamMessage, 0, len(entries))
	for chunk := range slices.Chunk(entries, MaxStreamPage) {
		lives, err := livesReader{r.store}.lives(ctx, fingerprintsOf(chunk))
		if err != nil {
			return nil, err
		}
		queues, err := queuesOf(ctx, r.store, lives, reporters)
		if err != nil {
			return nil, err
		}
		for i, entry := range chunk {
			messages = append(messages, entry.message(lives[i], queues[i]))
		}
	}
	return messages, nil
}

func (e *streamEntry) message(l Life, queues []AtQueue) StreamMessage {
	m := StreamMessage{Sequence: e.sequence, Time: e.time, Fingerprint: e.fingerprint, Queues: queues}
	if e.stream.HasVersion {
		m.Version = &e.stream.Version
	}
	if len(l.Events) > 0 {
		first := l.Events[0]
		m.Time, m.MessageID, m.Type = first.Time, first.Envelope.Properties.MessageID, first.Envelope.Properties.Type
		m.Exchange, m.RoutingKey = first.Envelope.Exchange, first.Envelope.RoutingKey
		m.ByPriority = slices.ContainsFunc(l.Events, func(e schemas.Event) bool { return e.ByPriority })
	}
	return m
}

func fingerprintsOf(entries []*streamEntry) []string {
	fingerprints := make([]string, len(entries))
	for i, e := range entries {
		fingerprints[i] = e.fingerprint
	}
	return fingerprints
}

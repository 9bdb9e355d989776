package shadow

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/handler/outgoing"
	"github.com/watershipmq/watership/internal/history/bodies"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// inSample reports whether a message is in a sample: a part of the messages that is the same in
// each run, since a fingerprint is a hash.
func inSample(fingerprint string, part float64) bool {
	_, digits, _ := strings.Cut(fingerprint, ":")
	hash, err := hex.DecodeString(digits[:min(16, len(digits))])
	if err != nil || len(hash) < 8 {
		return true
	}
	return float64(binary.BigEndian.Uint64(hash))/(1<<64) < part
}

// recorded is the last report of a queue about a message.
type recorded struct {
	eventstore.EventSummary
	handled int             // times that the queue has handled the message
	replays map[string]bool // jobs in which it did; "": none
}

// isHandled reports whether the queue has handled the message in the end.
func (r recorded) isHandled() bool { return r.Action == schemas.Handled }

// readReports returns the reports about messages, by fingerprint and queue.
func (r *run) readReports(ctx context.Context, events []schemas.Event) (map[string]map[string]recorded, error) {
	fingerprints := eventstore.FieldIn{Field: "watership.fingerprint"}
	for _, e := range events {
		fingerprints.Values = append(fingerprints.Values, e.Fingerprint)
	}
	reports := map[string]map[string]recorded{}
	if len(events) == 0 {
		return reports, nil
	}
	actions := kql.Or{kql.FieldIs("event.action", string(schemas.Handled)), kql.FieldIs("event.action", string(schemas.RetryScheduled)), kql.FieldIs("event.action", string(schemas.Poisoned))}
	for s, err := range r.Store.Summaries(ctx, eventstore.Selection{Query: actions, UpTo: r.state.UpTo}, fingerprints) {
		if err != nil {
			return nil, fmt.Errorf("reading the outcomes of messages: %w", err)
		}
		if len(r.Queues) > 0 && !slices.Contains(r.Queues, s.Queue) || s.Queue == "" {
			continue
		}
		if reports[s.Fingerprint] == nil {
			reports[s.Fingerprint] = map[string]recorded{}
		}
		before := reports[s.Fingerprint][s.Queue]
		latest := recorded{s, before.handled, before.replays}
		if latest.replays == nil {
			latest.replays = map[string]bool{}
		}
		if s.Action == schemas.Handled {
			latest.handled++
			latest.replays[s.Replay] = true
		}
		reports[s.Fingerprint][s.Queue] = latest
	}
	return reports, nil
}

// readBodies sets the bodies of the events.
func (r *run) readBodies(ctx context.Context, events []schemas.Event) error {
	missing := bodies.NewMissing(r.Fingerprints)
	for i := range events {
		events[i].BodyIn = schemas.BodyInPublished
		missing.Add(ctx, &events[i])
	}
	return missing.FindStored(ctx, r.Store)
}

// children are the messages that the handlers of a message have published, by their order.
type children []schemas.Envelope

// readChildren returns the outgoing messages of messages, by fingerprint.
func (r *run) readChildren(ctx context.Context, parents []Message) (map[string]children, error) {
	byName := map[string]string{} // fingerprints by values of the header
	var either kql.Or
	for _, m := range parents {
		for _, name := range []string{m.Fingerprint, m.Envelope.Properties.MessageID} {
			if _, known := byName[name]; name != "" && !known {
				byName[name] = m.Fingerprint
				either = append(either, kql.FieldIs("headers."+r.Causation, name))
			}
		}
		either = append(either, kql.FieldIs("watership.parent", m.Fingerprint))
	}
	found, known := map[string]children{}, map[string]bool{}
	if len(either) == 0 {
		return found, nil
	}
	selection := eventstore.Selection{Query: kql.And{kql.FieldIs("event.action", string(schemas.Published)), either}, Order: eventstore.BySequence}
	for e, err := range storeread.Readable(r.Store.Events(ctx, selection)) {
		if err != nil {
			return nil, fmt.Errorf("reading the outgoing messages: %w", err)
		}
		name, _ := e.Envelope.Headers[r.Causation].(string)
		parent := cmp.Or(e.Parent, byName[name])
		if id := e.Envelope.Properties.MessageID; parent != "" && e.Replay == "" && !(id != "" && known[parent+id]) {
			known[parent+id] = true
			found[parent] = append(found[parent], e.Envelope)
		}
	}
	return found, nil
}

// maxOutgoing is the number of outgoing messages of one message whose ids are recognised.
const maxOutgoing = 1000

// of returns the messages that a queue has published when it handled a message last. A message
// without a derived id belongs to it if the message was handled once, by any queue; otherwise
// isKnown is false.
func (c children) of(m Message, reports map[string]recorded) (own []schemas.Envelope, isKnown bool) {
	type handling struct{ queue, replay string }
	derived, handled := map[string]handling{}, 0
	for queue, report := range reports {
		handled += report.handled
		for replay := range report.replays {
			for n := range min(len(c), maxOutgoing) {
				derived[outgoing.ID(m.Fingerprint, queue, n, replay)] = handling{queue, replay}
			}
		}
	}
	for _, child := range c {
		by, isDerived := derived[child.Properties.MessageID]
		switch {
		case !isDerived && handled > 1:
			return nil, false
		case !isDerived, by == handling{m.Queue, m.Replay}:
			own = append(own, child)
		}
	}
	return own, true
}

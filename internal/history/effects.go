package history

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/storeread"
	"github.com/watershipmq/watership/schemas"
)

// Sending are messages that are about to be sent to one place.
type Sending struct {
	Exchange, RoutingKey string // of the messages
	Queue                string // that alone gets them; "": all queues that are bound
	Messages             int
}

// Effects are the messages and requests that messages as in some Sendings have caused, by the record.
type Effects struct {
	Sampled   int      // messages that were handled before, whose effects were read
	Published []Effect // messages of handlers, and of those that handle these, by exchange and routing key
	Queues    []Effect // messages that were handled or given up, by queue
	Requests  []Effect // of HTTP handlers, by queue and receiver

	NotHandled []Sending // messages of which no like was handled there, so that their effects are not known
	Silent     []string  // queues that handled messages, and no message is recorded that names one of them as its cause
	More       bool      // there are more kinds of messages, or more effects
}

// Effect counts one kind of effect.
type Effect struct {
	Exchange, RoutingKey string
	Queue, Receiver      string
	Sampled              int // in the sample
	Expected             int // by the sample, of all messages
}

// EffectsConfig says how effects are read.
type EffectsConfig struct {
	Causation string                                        // header in which handlers name the message that they handled
	Restrict  func(kql.Node) (kql.Node, error)              // to events that the caller may see
	Receiver  func(queue string, e schemas.Envelope) string // of the request about a message; "": there is none
}

// Bounds of the effects that are read: some queries for each of a few kinds of messages.
const (
	maxSendings       = 5
	maxEffectSample   = 50 // messages of a kind
	maxEffectMessages = 1000
	maxEffectLevels   = 6
	maxCauses         = 100 // that one query names, since stores refuse queries of too many conditions
)

// FindEffects samples the newest handled messages as in some Sendings, and reads the messages that were published because of
// them, and because of that, with the queues that got it.
func FindEffects(ctx context.Context, store EventStore, sendings []Sending, cfg EffectsConfig) (Effects, error) {
	r := effectsReader{store: store, cfg: cfg, counts: map[Effect]*count{}, handledAt: map[string]bool{}, causesAt: map[string]bool{}}
	sendings = slices.SortedFunc(slices.Values(sendings), func(a, b Sending) int { return b.Messages - a.Messages })
	r.found.More = len(sendings) > maxSendings
	for _, sending := range sendings[:min(len(sendings), maxSendings)] {
		if err := r.add(ctx, sending); err != nil {
			return Effects{}, fmt.Errorf("reading what such messages have caused: %w", err)
		}
	}
	return r.effects(), nil
}

type effectsReader struct {
	store     EventStore
	cfg       EffectsConfig
	found     Effects
	counts    map[Effect]*count
	handledAt map[string]bool // queues
	causesAt  map[string]bool // queues of messages that have caused others
}

// count is the number of an effect in the sample, and of all messages.
type count struct {
	sampled  int
	expected float64
}

// add reads the effects of one kind of messages, level by level.
func (r *effectsReader) add(ctx context.Context, sending Sending) error {
	level, err := r.sample(ctx, sending)
	if err != nil {
		return err
	}
	if len(level) == 0 {
		r.found.NotHandled = append(r.found.NotHandled, sending)
		return nil
	}
	r.found.Sampled += len(level)
	scale := 0.0 // messages to send for each that was handled
	for depth, read := 0, len(level); depth < maxEffectLevels && len(level) > 0; depth++ {
		queues, err := r.queuesOf(ctx, level)
		if err != nil {
			return err
		}
		if depth == 0 {
			scale = float64(sending.Messages) / float64(timesHandled(queues, sending.Queue))
		}
		for fingerprint, at := range queues {
			for queue, times := range at {
				if depth > 0 || sending.Queue == "" || queue == sending.Queue {
					if depth > 0 || sending.Queue == "" { // else it is the place that they are sent to
						r.count(Effect{Queue: queue}, times, scale)
					}
					r.handledAt[queue] = true
					message := level[fingerprint]
					if depth == 0 {
						message = schemas.Envelope{} // the messages to send name other receivers than the sample
					}
					if to := r.cfg.Receiver(queue, message); to != "" {
						r.count(Effect{Queue: queue, Receiver: to}, times, scale)
					}
				}
			}
		}
		if level, err = r.children(ctx, level, queues, scale); err != nil {
			return err
		}
		if read += len(level); read > maxEffectMessages {
			r.found.More = true
			return nil
		}
	}
	r.found.More = r.found.More || len(level) > 0
	return nil
}

func (r *effectsReader) count(effect Effect, times int, scale float64) {
	c := r.counts[effect]
	if c == nil {
		c = &count{}
		r.counts[effect] = c
	}
	c.sampled += times
	c.expected += float64(times) * scale
}

// timesHandled returns how often the messages of a sample were handled by one queue; "": by the queue that did most often.
func timesHandled(queues map[string]map[string]int, queue string) int {
	times := map[string]int{}
	for _, at := range queues {
		for name, n := range at {
			if queue == "" || name == queue {
				times[name] += n
			}
		}
	}
	most := 1
	for _, n := range times {
		most = max(most, n)
	}
	return most
}

// sample returns the newest messages of a kind that were handled, by their fingerprints.
func (r *effectsReader) sample(ctx context.Context, sending Sending) (map[string]schemas.Envelope, error) {
	query := kql.And{
		ofAction(schemas.Handled), FieldIsOrNone(exchangeField, sending.Exchange), FieldIsOrNone("messaging.rabbitmq.destination.routing_key", sending.RoutingKey),
	}
	if sending.Queue != "" {
		query = append(query, kql.FieldIs(queueField, sending.Queue))
	}
	sampled := map[string]schemas.Envelope{}
	return sampled, r.each(ctx, eventstore.Selection{Query: query, Limit: maxEffectSample}, func(e schemas.Event) { sampled[e.Fingerprint] = e.Envelope })
}

// each calls do for the events of a selection that the caller may see.
func (r *effectsReader) each(ctx context.Context, selection eventstore.Selection, do func(schemas.Event)) (err error) {
	selection.WithoutBody = true
	if selection.Query, err = r.cfg.Restrict(selection.Query); err != nil {
		return err
	}
	for e, err := range storeread.Readable(r.store.Events(ctx, selection)) {
		if err != nil {
			return err
		}
		do(e)
	}
	return ctx.Err()
}

// queuesOf returns how often queues have handled messages, or given them up for good, by fingerprint and queue.
func (r *effectsReader) queuesOf(ctx context.Context, messages map[string]schemas.Envelope) (map[string]map[string]int, error) {
	query, err := r.cfg.Restrict(kql.Or{ofAction(schemas.Handled), ofAction(schemas.Poisoned)})
	if err != nil {
		return nil, err
	}
	times := map[string]map[string]int{}
	ids := eventstore.FieldIn{Field: "watership.fingerprint", Values: slices.Sorted(maps.Keys(messages))}
	for e, err := range r.store.Summaries(ctx, eventstore.Selection{Query: query}, ids) {
		if err != nil {
			return nil, err
		}
		if times[e.Fingerprint] == nil {
			times[e.Fingerprint] = map[string]int{}
		}
		if before := times[e.Fingerprint]; e.Action == schemas.Handled {
			before[e.Queue]++
		} else {
			before[e.Queue] = max(1, before[e.Queue])
		}
	}
	return times, nil
}

// children counts the messages that were published because of others, and returns them by their fingerprints.
func (r *effectsReader) children(ctx context.Context, parents map[string]schemas.Envelope, queues map[string]map[string]int, scale float64) (map[string]schemas.Envelope, error) {
	header, byName, causes := "headers."+r.cfg.Causation, map[string]string{}, kql.Or{}
	for fingerprint, e := range parents {
		causes = append(causes, kql.FieldIs("watership.parent", fingerprint))
		for _, name := range []string{fingerprint, e.Properties.MessageID} {
			if name != "" {
				byName[name] = fingerprint
				causes = append(causes, kql.FieldIs(header, name))
			}
		}
	}
	found, seen := map[string]schemas.Envelope{}, map[string]bool{}
	add := func(e schemas.Event) {
		if e.Replay != "" || seen[e.EventID] { // it was replayed by itself, or names its cause twice
			return
		}
		seen[e.EventID] = true
		named, _ := e.Envelope.Headers[r.cfg.Causation].(string)
		for queue := range queues[cmp.Or(e.Parent, byName[named])] {
			r.causesAt[queue] = true
		}
		r.count(Effect{Exchange: e.Envelope.Exchange, RoutingKey: e.Envelope.RoutingKey}, 1, scale)
		found[e.Fingerprint] = e.Envelope
	}
	for some := range slices.Chunk(causes, maxCauses) {
		selection := eventstore.Selection{Query: kql.And{ofAction(schemas.Published), some}, Limit: maxEffectMessages}
		if err := r.each(ctx, selection, add); err != nil {
			return nil, err
		}
		if len(found) >= maxEffectMessages {
			break
		}
	}
	return found, nil
}

// effects returns the effects that were found, the most frequent first.
func (r *effectsReader) effects() Effects {
	for effect, n := range r.counts {
		effect.Sampled, effect.Expected = n.sampled, int(n.expected+0.5)
		switch {
		case effect.Receiver != "":
			r.found.Requests = append(r.found.Requests, effect)
		case effect.Queue != "":
			r.found.Queues = append(r.found.Queues, effect)
		default:
			r.found.Published = append(r.found.Published, effect)
		}
	}
	for _, list := range [][]Effect{r.found.Published, r.found.Queues, r.found.Requests} {
		slices.SortFunc(list, func(a, b Effect) int {
			return cmp.Or(b.Sampled-a.Sampled, cmp.Compare(a.Exchange, b.Exchange), cmp.Compare(a.RoutingKey, b.RoutingKey), cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Receiver, b.Receiver))
		})
	}
	for _, queue := range slices.Sorted(maps.Keys(r.handledAt)) {
		if !r.causesAt[queue] {
			r.found.Silent = append(r.found.Silent, queue)
		}
	}
	return r.found
}

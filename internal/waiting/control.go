package waiting

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/exclusive"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Control carries out decisions about waiting messages.
type Control struct {
	Topology schemas.Topology
	Broker   rabbit.Config
	Records  Records
}

// Result tells which messages were taken out of their delay queues.
type Result struct {
	Taken  []Message // RabbitMQ moves them to the queue of due messages
	Gone   []Message // did not wait any more
	Events []string  // ids of the events by which the due messages are recorded
}

const (
	connectTimeout = 30 * time.Second

	// drift is the difference between the clocks of processes, and the time that a message
	// takes from one delay queue to the next.
	drift = 5 * time.Second
)

// Decide decides about messages of List. Only one process does so at a time.
func (c Control) Decide(ctx context.Context, d Decision, messages []Message) (result Result, err error) {
	c.Broker.LargeFrames = true
	conn, err := exclusive.Open(ctx, c.Broker, c.lock(), connectTimeout)
	if errors.Is(err, exclusive.ErrLocked) {
		return result, fmt.Errorf("another process decides about waiting messages now, and holds queue %s: try again", c.lock())
	} else if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	taken, events := map[string]bool{}, map[string]string{}
	byQueue := c.queues(messages, time.Now())
	for _, queue := range slices.Sorted(maps.Keys(byQueue)) {
		_, found, existsErr := conn.QueueState(ctx, queue)
		if existsErr != nil {
			err = existsErr
			break
		}
		if !found {
			continue
		}
		mark := func(ctx context.Context, keys []string) error { return c.mark(ctx, d, keys, events) }
		var some map[string]bool
		some, err = taker{conn, queue, mark}.take(ctx, byQueue[queue])
		maps.Copy(taken, some)
		if err != nil {
			break
		}
	}
	for _, m := range messages {
		if taken[m.key] {
			result.Taken = append(result.Taken, m)
			result.Events = append(result.Events, events[m.key])
		} else if err == nil {
			result.Gone = append(result.Gone, m)
		}
	}
	return result, err
}

func (c Control) lock() string { return strings.TrimSuffix(c.Topology.Due(), "due") + "waiting" }

// mark saves a decision about some waits, and adds the ids of its events by their keys. It
// does so once for each.
func (c Control) mark(ctx context.Context, d Decision, keys []string, events map[string]string) error {
	keys = slices.DeleteFunc(keys, func(key string) bool { return events[key] != "" })
	for chunk := range slices.Chunk(keys, maxKeys) {
		r, err := record(ctx, c.Records, d, chunk, time.Now())
		if err != nil {
			return fmt.Errorf("saving the decision: %w", err)
		}
		for _, key := range chunk {
			events[key] = r.eventID(key)
		}
	}
	return nil
}

// queues returns the keys of messages by the delay queues in which they may be.
func (c Control) queues(messages []Message, now time.Time) map[string]map[string]bool {
	queues := map[string]map[string]bool{}
	for _, m := range messages {
		for _, delay := range m.delays(now) {
			name := c.Topology.Delay(delay)
			if queues[name] == nil {
				queues[name] = map[string]bool{}
			}
			queues[name][m.key] = true
		}
	}
	return queues
}

// delays returns the delays of the queues in which a message may be. A delay without a queue
// of its own, as until an hour or a time of an operator, leads from one queue to the next.
func (m Message) delays(now time.Time) (delays []time.Duration) {
	if !m.Postponed {
		delays = []time.Duration{m.Due.Sub(m.Since)}
	}
	for at := m.Since; at.Before(m.Due) && !at.After(now.Add(drift)); {
		step := retry.Step(m.Due.Sub(at))
		if at = at.Add(step); at.After(now.Add(-drift)) {
			delays = append(delays, step)
		}
	}
	return delays
}

const (
	recordedTimeout  = 10 * time.Second
	recordedInterval = 250 * time.Millisecond

	idChunk = 500 // ids in one query
)

// EventStore counts events.
type EventStore interface {
	Refresh(ctx context.Context) error
	Count(ctx context.Context, sel eventstore.Selection) (int64, error)
}

// AwaitRecorded waits until the store has the events of a result, so that List no longer
// lists the messages as they were. After ten seconds it returns how many are missing.
func AwaitRecorded(ctx context.Context, store EventStore, r Result) (missing int, err error) {
	for deadline := time.Now().Add(recordedTimeout); ; {
		missing, err := countMissing(ctx, store, r.Events)
		if err != nil || missing == 0 || time.Now().After(deadline) {
			return missing, err
		}
		select {
		case <-time.After(recordedInterval):
		case <-ctx.Done():
			return missing, context.Cause(ctx)
		}
	}
}

func countMissing(ctx context.Context, store EventStore, ids []string) (int, error) {
	if err := store.Refresh(ctx); err != nil {
		return 0, err
	}
	missing := len(ids)
	for chunk := range slices.Chunk(ids, idChunk) {
		var either kql.Or
		for _, id := range chunk {
			either = append(either, kql.FieldIs("event.id", id))
		}
		n, err := store.Count(ctx, eventstore.Selection{Query: either})
		if err != nil {
			return 0, err
		}
		missing -= int(n)
	}
	return max(0, missing), nil
}

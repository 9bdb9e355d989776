package waiting

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/exclusive"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Control carries out decisions about waiting messages.
type Control struct {
	Topology schemas.Topology
	Broker   rabbit.Config
	Records  Records
	Delays   []time.Duration // of policies; each has a queue
}

// Result reports which messages were taken out of their delay queues.
type Result struct {
	Taken  []WaitingMessage // RabbitMQ moves them to the queue of due messages
	Gone   []WaitingMessage // did not wait any more
	Events []string         // ids of the events by which the due messages are recorded
}

const (
	connectTimeout = 30 * time.Second

	// drift is the difference between the clocks of processes, and the time that a message
	// takes from one delay queue to the next.
	drift = 5 * time.Second
)

// Decide decides about messages of List. Only one process does so at a time.
func (c Control) Decide(ctx context.Context, d Decision, messages []WaitingMessage) (result Result, err error) {
	c.Broker.LargeFrames = true
	conn, err := exclusive.Open(ctx, c.Broker, c.lock(), connectTimeout)
	if errors.Is(err, exclusive.ErrLocked) {
		return result, fmt.Errorf("another process decides about waiting messages now, and holds queue %s: try again", c.lock())
	} else if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	taken, events := map[string]bool{}, map[string]string{}
	take := func(byQueue map[string]map[string]bool) error {
		return c.take(ctx, conn, byQueue, taken, func(ctx context.Context, keys []string) error { return c.mark(ctx, d, keys, events) })
	}
	if err = take(c.queues(messages, time.Now())); err == nil {
		err = take(c.otherQueues(messages, taken, time.Now()))
	}
	for _, m := range messages {
		if taken[m.wait] {
			result.Taken = append(result.Taken, m)
			result.Events = append(result.Events, events[m.wait])
		} else if err == nil {
			result.Gone = append(result.Gone, m)
		}
	}
	return result, err
}

// take takes messages out of the delay queues that exist, and adds their keys to taken.
func (c Control) take(ctx context.Context, conn *exclusive.Connection, byQueue map[string]map[string]bool, taken map[string]bool, mark func(context.Context, []string) error) error {
	for _, queue := range slices.Sorted(maps.Keys(byQueue)) {
		_, found, err := conn.QueueState(ctx, queue)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		some, err := taker{conn, queue, mark}.take(ctx, byQueue[queue])
		maps.Copy(taken, some)
		if err != nil {
			return err
		}
	}
	return nil
}

func (c Control) lock() string {
	return strings.TrimSuffix(c.Topology.Due(), "due") + "waiting"
}

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
func (c Control) queues(messages []WaitingMessage, now time.Time) map[string]map[string]bool {
	queues := map[string]map[string]bool{}
	for _, m := range messages {
		for _, delay := range m.delays(now) {
			name := wire.DelaysOf(c.Topology).Queue(delay)
			if queues[name] == nil {
				queues[name] = map[string]bool{}
			}
			queues[name][m.wait] = true
		}
	}
	return queues
}

// otherQueues returns the keys of messages that still have to wait and were not taken, by all other delay
// queues: where the queue of a delay cannot be declared, or does not confirm, its messages wait in another one.
func (c Control) otherQueues(messages []WaitingMessage, taken map[string]bool, now time.Time) map[string]map[string]bool {
	queues := map[string]map[string]bool{}
	for _, m := range messages {
		if taken[m.wait] || !m.Due.After(now.Add(drift)) {
			continue
		}
		for _, delay := range slices.Concat(c.Delays, retry.StandardDelays()) {
			if name := wire.DelaysOf(c.Topology).Queue(delay); !slices.Contains(m.delays(now), delay) {
				if queues[name] == nil {
					queues[name] = map[string]bool{}
				}
				queues[name][m.wait] = true
			}
		}
	}
	return queues
}

// delays returns the delays of the queues in which a message may be. A delay without its
// own queue, as until an hour or a time of an operator, leads from one queue to the next.
func (m WaitingMessage) delays(now time.Time) (delays []time.Duration) {
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

package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/render/wording"
)

// checkDelays looks for delay queues whose messages have waited and cannot go on.
func (t topologyChecks) checkDelays(ctx context.Context) {
	stuck, err := t.stuck(ctx)
	if err != nil {
		t.report(DelaysUnknown, Warning, err.Error(), "")
		return
	}
	if len(stuck) > 0 {
		t.report(DelaysStuck, Error, "messages have waited long enough and do not get to "+t.Topology.Due()+" from "+firstOf(maxNames, stuck),
			"see whether "+t.Topology.Due()+" is there and takes messages (watership setup declares it), and the log of RabbitMQ")
		return
	}
	_, delays := t.ownQueues()
	t.reportOK(DelaysCheck, "%s, none of which is stuck", wording.Plural(len(delays), "delay queue"))
}

// stuckPause is longer than RabbitMQ keeps the numbers of a queue before it counts again
// (https://www.rabbitmq.com/docs/management#statistics-interval).
const stuckPause = 6 * time.Second

// stuck reads the numbers twice if some message is due: one that leaves in between is not stuck.
func (b *broker) stuck(ctx context.Context) ([]string, error) {
	_, delays := b.ownQueues()
	first, err := b.management.DeadLettering(ctx, b.VHost)
	if err != nil {
		return nil, err
	}
	maps.DeleteFunc(first, func(name string, _ int64) bool { return !delays[name] })
	if len(first) == 0 {
		return nil, nil
	}
	if err := backoff.Sleep(ctx, stuckPause); err != nil {
		return nil, err
	}
	second, err := b.management.DeadLettering(ctx, b.VHost)
	var stuck []string
	for _, name := range slices.Sorted(maps.Keys(first)) {
		if second[name] >= first[name] && b.dueIsNotDrained() {
			stuck = append(stuck, name)
		}
	}
	return stuck, err
}

// dueIsNotDrained reports whether the queue of due messages is empty or has no consumer. While
// it is being emptied, delay queues wait for room in it.
func (b *broker) dueIsNotDrained() bool {
	due, there := b.queues[b.Topology.Due()]
	return !there || due.Messages == 0 || due.Consumers == 0
}

const maxLag = 10_000 // messages

func (t topologyChecks) checkLag(ctx context.Context) {
	ctx, cancel := t.bounded(ctx)
	defer cancel()
	type watched struct{ name, remedy string }
	_, copies := t.Topology.Partitions()
	copies = append(copies, t.Topology.IndexLate())
	var queues []watched
	for _, name := range copies {
		queues = append(queues, watched{name, "run watership serve, or see in its log why it does not keep up with the traffic"})
	}
	for _, queue := range append(queues, []watched{
		{t.Topology.Log(), "run watership serve, or see in its log why it does not keep up with the events"},
		{t.Topology.Due(), "run watership serve: nothing returns the messages that are due"},
		{t.Topology.Retry(), "run watership serve: nothing takes the dead letters"},
		{t.Topology.Report(), "run watership serve: nothing takes the reports of consumers"},
		{t.Topology.Poison(), "run watership serve: nothing records failed messages"},
	}...) {
		found, there := t.counted(ctx, queue.name)
		switch {
		case !there:
		case t.Topology.IndexLimit > 0 && found.Messages >= t.Topology.IndexLimit && slices.Contains(copies, queue.name):
			t.report(QueueFull, Warning, fmt.Sprintf("%s is full with %s: its oldest are dropped", queue.name, wording.Plural(int(found.Messages), "message")), queue.remedy)
		case found.Messages > maxLag:
			t.report(QueueLong, Warning, fmt.Sprintf("%s has %s", queue.name, wording.Plural(int(found.Messages), "message")), queue.remedy)
		case found.Messages > 0 && found.Consumers == 0:
			t.report(QueueUnconsumed, Warning, fmt.Sprintf("%s has %s and no consumer", queue.name, wording.Plural(int(found.Messages), "message")), queue.remedy)
		default:
			t.reportOK(LagCheck, "%s has %s", queue.name, wording.Plural(int(found.Messages), "message"))
		}
	}
}

// counted returns a queue with the numbers of its waiting messages and its consumers, which it asks the queue
// itself: the counts of the management API are up to 5 s old
// (https://www.rabbitmq.com/docs/management#statistics-interval), and double after a change of leader.
func (b *broker) counted(ctx context.Context, name string) (queue rabbit.Queue, there bool) {
	queue, there = b.queues[name]
	if !there || b.conn == nil {
		return queue, there
	}
	if state, found, err := b.conn.QueueState(ctx, name); err == nil && found && !state.Uncertain {
		queue.Messages, queue.Consumers = int64(state.Messages), state.Consumers
	}
	return queue, true
}

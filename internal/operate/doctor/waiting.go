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
func (d *doctor) checkDelays(ctx context.Context) {
	stuck, err := d.stuck(ctx)
	if err != nil {
		d.report("delays", Warning, err.Error(), "")
		return
	}
	if len(stuck) > 0 {
		d.report("delays", Error, "messages have waited long enough and do not get to "+d.Topology.Due()+" from "+firstOf(maxNames, stuck),
			"see whether "+d.Topology.Due()+" is there and takes messages (watership setup declares it), and the log of RabbitMQ")
		return
	}
	_, delays := d.ownQueues()
	d.reportOK("delays", "%s, none of which is stuck", wording.Plural(len(delays), "delay queue"))
}

const stuckPause = time.Second

// stuck reads the queues twice: a message that leaves in between is not stuck.
func (d *doctor) stuck(ctx context.Context) ([]string, error) {
	_, delays := d.ownQueues()
	first, err := d.management.DeadLettering(ctx, d.VHost)
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
	second, err := d.management.DeadLettering(ctx, d.VHost)
	var stuck []string
	for _, name := range slices.Sorted(maps.Keys(first)) {
		if second[name] >= first[name] && d.dueIsNotDrained() {
			stuck = append(stuck, name)
		}
	}
	return stuck, err
}

// dueIsNotDrained reports whether the queue of due messages is empty or has no consumer. While
// it is being emptied, delay queues wait for room in it.
func (d *doctor) dueIsNotDrained() bool {
	due, there := d.queues[d.Topology.Due()]
	return !there || due.Messages == 0 || due.Consumers == 0
}

const maxLag = 10_000 // messages

func (d *doctor) checkLag(ctx context.Context) {
	ctx, cancel := d.bounded(ctx)
	defer cancel()
	for _, queue := range []struct{ name, remedy string }{
		{d.Topology.Index(), "run watership serve, or see in its log why it does not keep up with the traffic"},
		{d.Topology.IndexLate(), "run watership serve, or see in its log why it does not keep up with the traffic"},
		{d.Topology.Log(), "run watership serve, or see in its log why it does not keep up with the events"},
		{d.Topology.Due(), "run watership serve: nothing returns the messages that are due"},
		{d.Topology.Retry(), "run watership serve: nothing takes the dead letters"},
		{d.Topology.Report(), "run watership serve: nothing takes the reports of consumers"},
		{d.Topology.Poison(), "run watership serve: nothing records failed messages"},
	} {
		found, there := d.counted(ctx, queue.name)
		switch {
		case !there:
		case d.Topology.IndexLimit > 0 && found.Messages >= d.Topology.IndexLimit && slices.Contains([]string{d.Topology.Index(), d.Topology.IndexLate()}, queue.name):
			d.report("lag", Warning, fmt.Sprintf("%s is full with %s: its oldest are dropped", queue.name, wording.Plural(int(found.Messages), "message")), queue.remedy)
		case found.Messages > maxLag:
			d.report("lag", Warning, fmt.Sprintf("%s has %s", queue.name, wording.Plural(int(found.Messages), "message")), queue.remedy)
		case found.Messages > 0 && found.Consumers == 0:
			d.report("lag", Warning, fmt.Sprintf("%s has %s and no consumer", queue.name, wording.Plural(int(found.Messages), "message")), queue.remedy)
		default:
			d.reportOK("lag", "%s has %s", queue.name, wording.Plural(int(found.Messages), "message"))
		}
	}
}

// counted returns a queue with the numbers of its waiting messages and its consumers, which it asks the queue
// itself: the counts of the management API are up to 5 s old
// (https://www.rabbitmq.com/docs/management#statistics-interval), and double after a change of leader.
func (d *doctor) counted(ctx context.Context, name string) (queue rabbit.Queue, there bool) {
	queue, there = d.queues[name]
	if !there || d.conn == nil {
		return queue, there
	}
	if state, found, err := d.conn.QueueState(ctx, name); err == nil && found && !state.Uncertain {
		queue.Messages, queue.Consumers = int64(state.Messages), state.Consumers
	}
	return queue, true
}

package topology

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// FormerIndex is an index queue with another limit, of another type or of another division than is
// configured now. A queue's arguments cannot change, so they are part of its name.
type FormerIndex struct {
	schemas.Topology        // with the former limit and type
	Name             string // of the queue
}

// IsLate reports whether it is the queue of late copies.
func (f FormerIndex) IsLate() bool { return f.Name == f.IndexLate() }

// unbind ends the copies to the queue, and to those that share them with it.
func (f FormerIndex) unbind(ch *amqp.Channel) error {
	divides, _ := f.Partitions()
	switch {
	case f.IsLate():
		return ch.QueueUnbind(f.Name, "", f.Late(), nil)
	case divides != "":
		return ch.ExchangeUnbind(divides, "", f.Tap(), false, nil)
	}
	return ch.QueueUnbind(f.Name, "", f.Tap(), nil)
}

// Migration replaces queues of a former configuration or release. Index queues are
// replaced by CheckUnused, Switch, Declare, Unbind and Drain, in this order.
type Migration struct {
	Conn       *rabbit.Connection
	Management *rabbit.Management
	VHost      string
	Topology   schemas.Topology // as configured now
}

// FormerIndexes returns the former index queues that exist, in the order in which
// Drain drains them: messages that expire in the first go to the second. Without the
// management API of this broker only those without a limit that got all copies can be found.
func (m Migration) FormerIndexes(ctx context.Context) ([]FormerIndex, error) {
	err := m.Management.CheckCluster(ctx, m.Conn)
	var queues []rabbit.Queue
	if err == nil {
		queues, err = m.Management.Queues(ctx, m.VHost)
	}
	if err != nil {
		return m.formerUnlimited(ctx)
	}
	var former []FormerIndex
	for _, q := range queues {
		if topology, is := m.Topology.FormerIndex(q.Name); is {
			former = append(former, FormerIndex{topology, q.Name})
		}
	}
	slices.SortFunc(former, func(a, b FormerIndex) int { return strings.Compare(a.Name, b.Name) })
	return former, nil
}

// Restore declares queues of Watership that were deleted while no process ran, by a Reconciler that
// records them. The queues that a configuration adds are left to Declare. So are the index queues while
// a former one may stand for them, which only the management API of this broker can exclude.
func (m Migration) Restore(ctx context.Context, by Reconciler) error {
	by.Config.Delays, by.Config.Tap, by.Config.Routes = nil, nil, nil
	missing, err := m.deleted(ctx, by)
	if err != nil || !missing {
		return err
	}
	former, err := m.mayHaveFormerIndex(ctx)
	if err != nil {
		return err
	}
	for _, q := range by.Config.queues() {
		if former && q.name != m.Topology.Log() && slices.Contains(m.Topology.Indexed(), q.name) {
			continue
		}
		if err := (repair{by}).queue(ctx, q); err != nil {
			return err
		}
	}
	return nil
}

func (m Migration) mayHaveFormerIndex(ctx context.Context) (bool, error) {
	if m.Management.CheckCluster(ctx, m.Conn) != nil {
		return true, nil
	}
	former, err := m.FormerIndexes(ctx)
	return len(former) > 0, err
}

// deleted reports whether a queue of a Reconciler is missing that has existed.
func (m Migration) deleted(ctx context.Context, by Reconciler) (missing bool, err error) {
	// Declare declares this one after the others.
	last, err := by.declarer(ctx).queueExists(m.Topology.Paused())
	if err != nil || !last {
		return false, err
	}
	for _, q := range by.Config.queues() {
		there, err := by.declarer(ctx).queueExists(q.name)
		if err != nil || !there {
			return !there, err
		}
	}
	return false, nil
}

func (m Migration) formerUnlimited(ctx context.Context) ([]FormerIndex, error) {
	var former []FormerIndex
	for _, classic := range []bool{false, true} {
		unlimited := schemas.Topology{Prefix: m.Topology.Prefix, ClassicIndex: classic}
		for _, name := range []string{unlimited.Index(), unlimited.IndexLate()} {
			if _, is := m.Topology.FormerIndex(name); !is {
				continue
			}
			there, err := declarer{ctx: ctx, conn: m.Conn}.queueExists(name)
			if err != nil {
				return nil, err
			}
			if there {
				former = append(former, FormerIndex{unlimited, name})
			}
		}
	}
	return former, nil
}

// CheckUnused fails while a former index queue has a consumer.
func (m Migration) CheckUnused(ctx context.Context) error {
	return m.eachFormer(ctx, func(former FormerIndex) error {
		_, err := m.awaitUnused(ctx, former.Name)
		return err
	})
}

// Unbind unbinds the former index queues that Switch has left; the present queues must be bound
// before. Messages that are published between the two steps are in both.
func (m Migration) Unbind(ctx context.Context) error {
	return m.eachFormer(ctx, func(former FormerIndex) error {
		err := m.Conn.Do(ctx, former.unbind)
		if err != nil {
			return fmt.Errorf("unbinding queue %s: %w", former.Name, err)
		}
		return nil
	})
}

// Drain calls drain, which consumes the messages of a queue, with each former index queue
// until the queue is empty, and deletes it: no message can reach it after Unbind. Then
// it calls drained. At the end it deletes the exchanges that led to the queues.
func (m Migration) Drain(ctx context.Context, drain func(context.Context, FormerIndex) error, drained func(FormerIndex)) error {
	err := m.eachFormer(ctx, func(former FormerIndex) error {
		messages, err := m.awaitUnused(ctx, former.Name)
		for ; err == nil && messages > 0; messages, err = m.awaitUnused(ctx, former.Name) {
			if err := drain(ctx, former); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if err := deleteEmpty(ctx, m.Conn, former.Name); err != nil {
			return err
		}
		drained(former)
		return nil
	})
	if err != nil || m.Management.CheckCluster(ctx, m.Conn) != nil {
		return err
	}
	present, _ := m.Topology.Partitions()
	return m.deleteDivisions(ctx, m.Topology, present)
}

// deleteDivisions deletes the exchanges that divide copies of a topology, or led to queues of copies, but for
// one.
func (m Migration) deleteDivisions(ctx context.Context, of schemas.Topology, keep string) error {
	exchanges, err := m.Management.Exchanges(ctx, m.VHost)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range exchanges {
		if strings.HasPrefix(e.Name, of.Name(".index.")) && e.Name != keep {
			names = append(names, e.Name)
		}
	}
	return m.deleteExchanges(ctx, names)
}

func (m Migration) eachFormer(ctx context.Context, do func(FormerIndex) error) error {
	former, err := m.FormerIndexes(ctx)
	if err != nil {
		return err
	}
	for _, f := range former {
		if err := do(f); err != nil {
			return err
		}
	}
	return nil
}

const unusedTimeout = 5 * time.Second // the broker's count of consumers lags

func (m Migration) awaitUnused(ctx context.Context, queue string) (messages int, err error) {
	used := fmt.Errorf("queue %s still has a consumer: stop the serve that has the former tap.when_full, tap.limit, tap.queue_type or index.partitions, and run setup again", queue)
	return awaitUnused(ctx, m.Conn, queue, used)
}

// awaitUnused waits until a queue has no consumer, and returns the number of its messages. After
// unusedTimeout it returns the error used.
func awaitUnused(ctx context.Context, conn *rabbit.Connection, queue string, used error) (messages int, err error) {
	for since := time.Now(); ; {
		state, _, err := conn.CertainQueueState(ctx, queue)
		switch {
		case err != nil:
			return 0, err
		case state.Consumers == 0 && !state.Locked:
			return state.Messages, nil
		case time.Since(since) > unusedTimeout:
			return 0, used
		}
		if err := backoff.Sleep(ctx, 100*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// deleteEmpty deletes a queue that is empty.
func deleteEmpty(ctx context.Context, conn *rabbit.Connection, queue string) error {
	err := conn.Do(ctx, func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		return err
	})
	if err != nil {
		return fmt.Errorf("deleting queue %s, which is empty: %w", queue, err)
	}
	return nil
}

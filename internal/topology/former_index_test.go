package topology

import (
	"context"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// migrating returns a migration to a topology with a limit, without the management API,
// and the names of the former index queues.
func migrating(t *testing.T, b rabbittest.Broker) (m Migration, former schemas.Topology) {
	t.Helper()
	away, err := rabbit.NewManagement("http://guest:guest@127.0.0.1:1", nil)
	if err != nil {
		t.Fatal(err)
	}
	former = schemas.Topology{Prefix: rabbittest.Name(t)}
	now := schemas.Topology{Prefix: former.Prefix, IndexLimit: 1000}
	return Migration{Conn: connection(t, b), Management: away, VHost: "/", Topology: now}, former
}

// The messages of a former index queue are drained before the queue is deleted.
func TestDrainDeletesOnlyEmptyQueues(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		m, former := migrating(t, b)
		ch := b.Channel(t)
		for _, queue := range []string{former.Index(), former.IndexLate()} {
			if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
				t.Fatal(err)
			}
			b.DeleteQueue(t, queue)
		}
		for range 3 {
			publishKey(t, b, "", former.Index())
		}
		rabbittest.Eventually(t, "the messages", func() bool { return b.Len(t, former.Index()) == 3 })
		drains, deleted := 0, []string{}
		err := m.Drain(t.Context(), func(context.Context, FormerIndex) error {
			drains++
			b.Take(t, former.Index(), min(2, b.Len(t, former.Index()))) // not all at the first time
			return nil
		}, func(f FormerIndex) { deleted = append(deleted, f.Name) })
		if err != nil || drains < 2 || !slices.Equal(deleted, []string{former.Index(), former.IndexLate()}) {
			t.Errorf("%d drains, deleted %v: %v", drains, deleted, err)
		}
		if left, err := m.FormerIndexes(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("%v is left: %v", left, err)
		}
	})
}

// RabbitMQ counts neither messages nor consumers of a queue that is exclusive to another
// connection.
func TestLockedQueueIsNotDeleted(t *testing.T) {
	b := rabbittest.Newest(t)
	m, former := migrating(t, b)
	ch := b.Channel(t)
	if _, err := ch.QueueDeclare(former.Index(), true, false, true, false, amqp.Table{}); err != nil {
		t.Fatal(err)
	}
	err := m.Drain(t.Context(), func(context.Context, FormerIndex) error { t.Error("drained"); return nil }, func(FormerIndex) { t.Error("deleted") })
	if err == nil || !strings.Contains(err.Error(), "still has a consumer") {
		t.Errorf("got %v", err)
	}
}

// A queue is not deleted while RabbitMQ cannot tell what is in it.
func TestSilentQueueIsNotDeleted(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		m, former := migrating(t, b)
		silent := 0
		url := b.SilentQueues(t, func(queue string) bool {
			silent++
			return silent <= 3
		})
		m.Conn = connection(t, rabbittest.Broker{Address: rabbittest.Address{URL: url}})
		if _, err := b.Channel(t).QueueDeclare(former.Index(), true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-single-active-consumer": true}); err != nil {
			t.Fatal(err)
		}
		b.DeleteQueue(t, former.Index())
		publishKey(t, b, "", former.Index())
		rabbittest.Eventually(t, "the message", func() bool { return b.Len(t, former.Index()) == 1 })
		drained := 0
		err := m.Drain(t.Context(), func(context.Context, FormerIndex) error {
			drained += len(b.Take(t, former.Index(), 1))
			return nil
		}, func(FormerIndex) {})
		if err != nil || drained != 1 {
			t.Errorf("%d messages were drained: %v", drained, err)
		}
	})
}

// An index queue may be missing since a former one stands for it, which only the management API knows.
// The other queues are restored in any case.
func TestRestoreRecordsTheQueuesThatHaveExisted(t *testing.T) {
	b := rabbittest.NewestServer(t)
	answering, err := rabbit.NewManagement(b.ManagementURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		away, former, index bool // index: its loss is recorded
	}{
		"the management API answers": {index: true},
		"a former index queue":       {former: true},
		"no management API":          {away: true},
	} {
		t.Run(name, func(t *testing.T) {
			m, former := migrating(t, b)
			if !test.away {
				m.Management = answering
			}
			cfg := named(t, b, Quorum)
			m.Topology.Prefix, former.Prefix = cfg.Prefix, cfg.Prefix
			cfg.Topology = m.Topology
			b.DeleteQueue(t, cfg.Index())
			b.DeleteQueue(t, cfg.IndexLate())
			var lost []string
			by := Reconciler{Conn: m.Conn, Config: cfg, Lost: func(_ context.Context, queue string) error {
				lost = append(lost, queue)
				return nil
			}}
			if err := m.Restore(t.Context(), by); err != nil || lost != nil {
				t.Errorf("%v are lost in a new installation: %v", lost, err)
			}
			if err := by.Declare(t.Context()); err != nil {
				t.Fatal(err)
			}
			ch := b.Channel(t)
			for _, queue := range []string{cfg.Retry(), cfg.Index(), wire.DelaysOf(cfg.Topology).Queue(cfg.Delays[0])} {
				if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
					t.Fatal(err)
				}
			}
			want := []string{cfg.Retry()}
			if test.index {
				want = []string{cfg.Index(), cfg.Retry()}
			}
			if test.former {
				if _, err := ch.QueueDeclare(former.Index(), true, false, false, false, nil); err != nil {
					t.Fatal(err)
				}
				b.DeleteQueue(t, former.Index())
			}
			if err := m.Restore(t.Context(), by); err != nil || !slices.Equal(lost, want) {
				t.Errorf("%v are lost instead of %v: %v", lost, want, err)
			}
			reachesBy(t, b, cfg.Direct(), cfg.Poison(), cfg.Poison())
		})
	}
}

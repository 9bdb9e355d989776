package topology

import (
	"context"
	"fmt"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// switching is a topology whose division changes, with a tapped exchange.
type switching struct {
	rabbittest.Broker
	t      *testing.T
	tapped string
	prefix string
	seen   map[string]int // copies of each message
	sent   int
}

func newSwitching(t *testing.T, b rabbittest.Broker) *switching {
	t.Helper()
	cfg, tapped := dividingInto(t, b, 1, "")
	return &switching{b, t, tapped, cfg.Prefix, map[string]int{}, 0}
}

// migration returns the migration to a division.
func (s *switching) migration(url string, to schemas.Topology) (Migration, Config) {
	s.t.Helper()
	to.Prefix = s.prefix
	cfg := Config{Topology: to, QueueType: Quorum, Tap: []Tap{{Exchange: s.tapped, Type: "topic"}}}
	removeCopies(s.t, s.Broker, cfg)
	management, err := rabbit.NewManagement(s.ManagementURL, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	conn, err := rabbit.Open(rabbit.Config{URL: url, Name: s.t.Name()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return Migration{Conn: conn, Management: management, VHost: s.VHostName(s.t), Topology: to}, cfg
}

// run changes the division as setup does.
func (s *switching) run(ctx context.Context, m Migration, to Config) error {
	if err := m.Switch(ctx, to); err != nil {
		return err
	}
	if err := Declare(ctx, m.Conn, to); err != nil {
		return err
	}
	if err := m.Unbind(ctx); err != nil {
		return err
	}
	return m.Drain(ctx, func(_ context.Context, f FormerIndex) error {
		s.take(f.Name)
		return nil
	}, func(FormerIndex) {})
}

func (s *switching) take(queue string) {
	for _, d := range s.Take(s.t, queue, s.Len(s.t, queue)) {
		s.seen[string(d.Body)]++
	}
}

// publish publishes messages with other keys, with confirms, until stop is closed.
func (s *switching) publish(stop <-chan struct{}) (ended func()) {
	ch := s.Channel(s.t)
	if err := ch.Confirm(false); err != nil {
		s.t.Fatal(err)
	}
	var publishing sync.WaitGroup
	publishing.Go(func() {
		for {
			s.publishOne(ch)
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	return publishing.Wait
}

func (s *switching) publishOne(ch *amqp.Channel) {
	body := fmt.Sprint(s.sent)
	confirmed, err := ch.PublishWithDeferredConfirm(s.tapped, fmt.Sprint("k", s.sent%17), false, false, amqp.Publishing{MessageId: body, Body: []byte(body)})
	if err != nil || !confirmed.Wait() {
		s.t.Errorf("publishing: %v", err)
	}
	s.sent++
}

// wantEachOnce takes the copies in the queues of a division, and wants one of each message so far.
func (s *switching) wantEachOnce(what string, in Config) {
	s.t.Helper()
	_, queues := in.Partitions()
	rabbittest.Eventually(s.t, "all copies", func() bool {
		for _, queue := range queues {
			s.take(queue)
		}
		return len(s.seen) >= s.sent
	})
	for n := range s.sent {
		if copies := s.seen[fmt.Sprint(n)]; copies != 1 {
			s.t.Fatalf("%s: message %d of %d has %d copies", what, n, s.sent, copies)
		}
	}
}

// While messages are published, each has one copy, whichever division follows which. A slow machine publishes thousands
// meanwhile, of which a queue with a small limit drops the oldest.
func TestSwitchDoublesAndLosesNothing(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		s := newSwitching(t, b)
		former, at := s.migration(b.URL, schemas.Topology{})
		if err := Declare(t.Context(), former.Conn, at); err != nil {
			t.Fatal(err)
		}
		for _, to := range []schemas.Topology{
			{IndexPartitions: 3}, {IndexPartitions: 2, PartitionKey: "message_id"}, {IndexPartitions: 2}, {IndexLimit: 1_000_000}, {ClassicIndex: true}, {},
		} {
			m, cfg := s.migration(b.URL, to)
			stop := make(chan struct{})
			ended := s.publish(stop)
			err := s.run(t.Context(), m, cfg)
			close(stop)
			ended()
			if err != nil {
				t.Fatalf("to %+v: %v", to, err)
			}
			s.wantEachOnce(fmt.Sprintf("to %+v", to), cfg)
			exchanges, err := m.Management.Exchanges(t.Context(), m.VHost)
			divides, _ := cfg.Partitions()
			for _, e := range exchanges {
				if e.Name != divides && len(e.Name) > len(cfg.Name(".index.")) && e.Name[:len(cfg.Name(".index."))] == cfg.Name(".index.") {
					t.Errorf("to %+v: exchange %s is left: %v", to, e.Name, err)
				}
			}
		}
	})
}

// A switch that ends at any operation is continued, to the same division or another, and then loses and
// doubles nothing.
func TestSwitchIsContinued(t *testing.T) {
	b := rabbittest.Embedded(t)
	divisions := []schemas.Topology{{IndexPartitions: 3}, {IndexPartitions: 2}, {}}
	for at, done := 1, false; !done; at++ {
		then := divisions[at%len(divisions)]
		s := newSwitching(t, b)
		former, undivided := s.migration(b.URL, schemas.Topology{})
		if err := Declare(t.Context(), former.Conn, undivided); err != nil {
			t.Fatal(err)
		}
		done = s.cutShort(at, schemas.Topology{IndexPartitions: 3})
		if done && at < 10 {
			t.Errorf("the switch has %d operations", at)
		}
		ch := b.Channel(t)
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			s.publishOne(ch)
		}
		m, cfg := s.migration(b.URL, then)
		if err := s.run(t.Context(), m, cfg); err != nil {
			t.Fatalf("at operation %d, then %+v: %v", at, then, err)
		}
		for range 20 {
			s.publishOne(ch)
		}
		s.wantEachOnce(fmt.Sprintf("at operation %d, then %+v", at, then), cfg)
	}
}

// cutShort switches to a division, and ends before an operation on bindings. It reports whether the switch has
// ended by itself.
func (s *switching) cutShort(at int, to schemas.Topology) bool {
	ctx, end := context.WithCancel(s.t.Context())
	defer end()
	operations := 0
	m, cfg := s.migration(s.RewriteSent(s.t, func(frame []byte) []byte {
		if !changesBindings(frame) {
			return frame
		}
		if operations++; operations < at {
			return frame
		}
		end()
		return nil // the broker does not get it
	}), to)
	err := m.Switch(ctx, cfg)
	_ = m.Conn.Close()
	return err == nil
}

// changesBindings reports whether a frame deletes, binds or unbinds something.
func changesBindings(frame []byte) bool {
	for _, method := range []uint16{20, 30, 40} { // exchange.delete, bind, unbind
		if rabbittest.IsMethod(frame, 40, method) {
			return true
		}
	}
	return rabbittest.IsMethod(frame, 50, 20) || rabbittest.IsMethod(frame, 50, 50) // queue.bind, unbind
}

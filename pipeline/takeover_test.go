package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
)

// orderedRoute is an ordered route of several processes, and what their handlers have seen.
type orderedRoute struct {
	t        *testing.T
	broker   rabbittest.Broker
	topology schemas.Topology
	queue    string
	kind     QueueType

	mu      sync.Mutex // guards the fields below
	tries   map[string]int
	running map[string]int
	handled map[string][]string // by key, each message once
	count   int
	holder  *orderedProcess // whose handler was called last
}

// orderedProcess is one process of the route.
type orderedProcess struct {
	*rig
	proxy  *rabbittest.NamedProxy
	killed atomic.Bool
}

// kill ends the process, as far as broker and handlers can see.
func (p *orderedProcess) kill() {
	p.killed.Store(true)
	p.proxy.Cut()
}

func (o *orderedRoute) start() *orderedProcess {
	p := &orderedProcess{proxy: o.broker.NamedProxy(o.t)}
	p.rig = startSilent(o.t, o.broker, func(c *Config) {
		c.URL, c.Topology, c.StopTimeout, c.QueueType = p.proxy.URL, o.topology, time.Second, o.kind
		c.Routes = []Route{{
			Queue: o.queue, Concurrency: 2, Fairness: Fairness{Key: keyHeader, Ordered: true}, Policy: attemptsAfter(100*time.Millisecond, 300*time.Millisecond),
			Handler: handler(func(msg *message.Message) error { return o.handle(p, msg) }),
		}}
	})
	return p
}

func (o *orderedRoute) handle(p *orderedProcess, msg *message.Message) error {
	e, _ := schemas.FromContext(msg.Context())
	key, body := keyHeader(e), string(msg.Payload)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.holder = p
	if o.running[key]++; o.running[key] > 1 {
		o.t.Errorf("%s is handled while another message of its key is", body)
	}
	defer func() { o.running[key]-- }()
	o.mu.Unlock()
	select {
	case <-time.After(5 * time.Millisecond):
	case <-msg.Context().Done():
	}
	o.mu.Lock()
	if p.killed.Load() || msg.Context().Err() != nil {
		return errors.New("the process is killed, or its connection is lost")
	}
	if o.tries[body]++; o.tries[body] < 3 && strings.HasSuffix(body, "25") {
		return errors.New("failed")
	}
	if !slices.Contains(o.handled[key], body) { // a process may end before the acknowledgement
		o.handled[key] = append(o.handled[key], body)
		o.count++
	}
	return nil
}

func (o *orderedRoute) state() (count int, holder *orderedProcess) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count, o.holder
}

// awaitMore waits until so many more messages are handled, the last ones by a process that is not
// the given one.
func (o *orderedRoute) awaitMore(n int, not *orderedProcess) {
	o.t.Helper()
	before, _ := o.state()
	rabbittest.Eventually(o.t, fmt.Sprintf("%d more messages are handled after %d", n, before), func() bool {
		count, holder := o.state()
		return count >= before+n && (not == nil || holder != not)
	})
}

// Three processes have an ordered route. The one that handles its messages loses its publishing
// connection, then its consuming connection, is killed, and the next one stops. Each time the
// messages of each key go on in their order, by another process if need be, and in the end nothing
// is left.
func TestOrderIsTakenOver(t *testing.T) {
	t.Parallel() // most of it is waiting
	for kind, each := range map[QueueType]func(*testing.T, func(*testing.T, rabbittest.Broker)){
		Quorum: rabbittest.Each, Classic: rabbittest.EachKind, // classic queues are alike in every RabbitMQ
	} {
		t.Run(string(kind), func(t *testing.T) {
			each(t, func(t *testing.T, b rabbittest.Broker) {
				t.Parallel()
				testOrderIsTakenOver(t, b, kind)
			})
		})
	}
}

func testOrderIsTakenOver(t *testing.T, b rabbittest.Broker, kind QueueType) {
	const keys = 3
	o := &orderedRoute{
		t: t, broker: b, topology: schemas.Topology{Prefix: rabbittest.Name(t)}, queue: rabbittest.Name(t), kind: kind,
		tries: map[string]int{}, running: map[string]int{}, handled: map[string][]string{},
	}
	processes := []*orderedProcess{o.start(), o.start(), o.start()}
	standby := func(p *orderedProcess) bool { return !p.pipeline.Routes()[0].Standby.IsZero() }
	rabbittest.Eventually(t, "one process has the order, and two stand by", func() bool {
		return len(slices.DeleteFunc(slices.Clone(processes), standby)) == 1
	})

	published := map[string][]string{}
	publishing, stop := make(chan struct{}), make(chan struct{})
	channel := b.Channel(t)
	go func() {
		defer close(publishing)
		for i := 0; ; i++ {
			key, body := fmt.Sprint("k", i%keys), fmt.Sprint(i)
			if err := channel.PublishWithContext(t.Context(), "", o.queue, false, false, keyed(key, body)); err != nil {
				t.Error(err)
				return
			}
			published[key] = append(published[key], body)
			select {
			case <-time.After(15 * time.Millisecond):
			case <-stop:
				return
			}
		}
	}()
	o.awaitMore(20, nil)

	_, holder := o.state()
	if n := holder.proxy.Close("watership publishing"); n == 0 {
		t.Error("the process has no publishing connection")
	}
	o.awaitMore(20, nil)

	_, holder = o.state()
	if n := holder.proxy.Close("watership consuming"); n == 0 {
		t.Error("the process has no consuming connection")
	}
	o.awaitMore(20, nil)

	_, holder = o.state()
	holder.kill()
	o.awaitMore(20, holder)

	_, holder = o.state()
	if err := holder.stop(); err != nil {
		t.Error(err)
	}
	o.awaitMore(20, holder)
	close(stop)
	<-publishing

	_, holder = o.state()
	if err := holder.pipeline.Unconsumed(); err != nil || standby(holder) {
		t.Errorf("the process that has the order: %v, stands by: %t", err, standby(holder))
	}
	all := 0
	for _, bodies := range published {
		all += len(bodies)
	}
	t.Cleanup(func() {
		if t.Failed() {
			count, _ := o.state()
			t.Logf("%d of %d messages are handled", count, all)
		}
	})
	rabbittest.Eventually(t, "all messages are handled", func() bool { count, _ := o.state(); return count == all })
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range published {
		if !slices.Equal(o.handled[key], published[key]) {
			t.Errorf("the messages of %s were handled in the order\n%v, want\n%v", key, o.handled[key], published[key])
		}
	}
	rabbittest.Eventually(t, "no places are left", func() bool { return b.Len(t, o.topology.Places(o.queue)) == 0 && b.Len(t, o.queue) == 0 })
}

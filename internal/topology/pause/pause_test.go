package pause

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/schemas"
)

// rig is a broker with Watership's topology, and a connection to it.
type rig struct {
	schemas.Topology
	broker    rabbittest.Broker
	conn      *rabbit.Connection
	publisher *rabbit.Publisher
}

func newRig(t *testing.T, b rabbittest.Broker, kind topology.QueueType) rig {
	t.Helper()
	b = b.VHost(t)
	conn, err := rabbit.Open(rabbit.Config{URL: b.URL, Name: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r := rig{Topology: schemas.Topology{Prefix: "w-" + string(kind)}, broker: b, conn: conn, publisher: rabbit.NewPublisher(conn, rabbit.PublisherConfig{})}
	t.Cleanup(func() { _ = r.publisher.Close() })
	if err := topology.Declare(t.Context(), conn, topology.Config{Topology: r.Topology, QueueType: kind}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r rig) want(t *testing.T, queue string, paused bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), rabbittest.Timeout)
	defer cancel()
	if got, err := Paused(ctx, r.publisher, r.Topology, queue); err != nil || got != paused {
		t.Errorf("%s is paused: %t, want %t (%v)", queue, got, paused, err)
	}
}

func (r rig) control() Control {
	return Control{Topology: r.Topology, Connection: r.conn, Publisher: r.publisher, Sign: func(m rabbit.Message) rabbit.Message { return m }}
}

func (r rig) pause(t *testing.T, queue string) {
	t.Helper()
	if err := r.control().Pause(t.Context(), queue, "a deploy"); err != nil {
		t.Fatal(err)
	}
}

func (r rig) resume(t *testing.T, queue string) {
	t.Helper()
	if err := r.control().Resume(t.Context(), queue, "deployed"); err != nil {
		t.Fatal(err)
	}
}

func TestPauseAndResume(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		for _, kind := range []topology.QueueType{topology.Quorum, topology.Classic} {
			t.Run(string(kind), func(t *testing.T) {
				r := newRig(t, b, kind)
				long := strings.Repeat("q", 255)
				r.want(t, "orders", false)
				for range 2 {
					r.pause(t, "orders")
					r.want(t, "orders", true)
					r.want(t, "order", false)
					r.want(t, long, false)
				}
				r.pause(t, long)
				r.want(t, long, true)
				for range 20 {
					r.want(t, "orders", true)
				}
				rabbittest.Eventually(t, "nothing is kept", func() bool { return r.broker.Len(t, r.Topology.Paused()) == 0 })
				for range 2 {
					r.resume(t, "orders")
					r.want(t, "orders", false)
					r.want(t, long, true)
				}
			})
		}
	})
}

// keys are the keys of a route.
type keys struct {
	mu      sync.Mutex
	holding bool
	names   []string
	held    map[string]bool
}

func (k *keys) SetHolding(holding bool)   { k.holding = holding }
func (k *keys) Unknown(all bool) []string { return k.names }
func (k *keys) SetHeld(key string, held bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held[key] = held
}

// A held key is a binding of its own, about which only processes ask that have messages of it.
func TestHold(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		r := newRig(t, b, topology.Quorum)
		long := strings.Repeat("k", 255)
		k := &keys{names: []string{"acme", "coffee", long}, held: map[string]bool{}}
		w := &Watcher{Topology: r.Topology, Publisher: r.publisher, Logger: slog.New(slog.DiscardHandler)}
		w.SetKeys("orders", k)
		want := func(when string, holding bool, held ...string) {
			t.Helper()
			w.Check(t.Context())
			var got []string
			for _, name := range k.names {
				if k.held[name] {
					got = append(got, name)
				}
			}
			if k.holding != holding || !slices.Equal(got, held) {
				t.Errorf("%s: holding %t, held %q, want %t, %q", when, k.holding, got, holding, held)
			}
		}
		want("nothing is held", false)
		for _, key := range []string{"acme", long} {
			if err := r.control().Hold(t.Context(), "orders", key, "it moves"); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.control().Hold(t.Context(), "mails", "coffee", "it moves"); err != nil {
			t.Fatal(err)
		}
		want("two are held", true, "acme", long)
		r.want(t, "orders", false)
		if err := r.control().Release(t.Context(), "orders", "acme", "it has moved"); err != nil {
			t.Fatal(err)
		}
		want("one is released", true, long)
	})
}

// A login that may not ask handles all keys.
func TestQuestionAboutKeysThatIsRefused(t *testing.T) {
	k := &keys{holding: true, held: map[string]bool{}}
	w := &Watcher{Publisher: refusing{}, Logger: slog.New(slog.DiscardHandler)}
	w.SetKeys("orders", k)
	if w.Check(t.Context()); k.holding {
		t.Error("keys wait for an answer")
	}
}

// refusing refuses all questions.
type refusing struct{}

func (refusing) Publish(context.Context, rabbit.Message) error { return &rabbit.RefusedError{} }

// An alternate exchange of a former release's exchange would route every question.
func TestAlternateExchange(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		r := newRig(t, b, topology.Quorum)
		ch := r.broker.Channel(t)
		if err := ch.ExchangeDelete(r.Pauses(), false, false); err != nil {
			t.Fatal(err)
		}
		if err := r.control().Pause(t.Context(), "orders", "a deploy"); err == nil || !strings.Contains(err.Error(), "run watership setup") {
			t.Errorf("without the exchange: %v", err)
		}
		if err := ch.ExchangeDeclare(r.Pauses(), "direct", true, false, false, false, amqp.Table{"alternate-exchange": "amq.fanout"}); err != nil {
			t.Fatal(err)
		}
		if err := ch.QueueBind(r.Poison(), "", "amq.fanout", false, nil); err != nil {
			t.Fatal(err)
		}
		by := topology.ReturningPublisher{Publisher: r.publisher, Reconciler: topology.Reconciler{
			Conn: r.conn, Config: topology.Config{Topology: r.Topology}, SelfBindings: &topology.SelfBindings{},
		}}
		for _, want := range []bool{false, true, false} {
			for _, queue := range []string{"orders", All} {
				if paused, err := Paused(t.Context(), by, r.Topology, queue); err != nil || paused != (want && queue != All) {
					t.Errorf("%q is paused: %t (%v)", queue, paused, err)
				}
			}
			if want {
				r.resume(t, "orders")
			} else {
				r.pause(t, "orders")
			}
		}
		if n := r.broker.Len(t, r.Poison()); n > 0 {
			t.Errorf("the alternate exchange got %d questions", n)
		}
	})
}

func TestWatcher(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		r := newRig(t, b, topology.Quorum)
		log := &rabbittest.Log{}
		w := &Watcher{Topology: r.Topology, Publisher: r.publisher, Logger: log.Logger()}
		orders, mails := w.Switch("orders"), w.Switch("mails")
		r.pause(t, "orders")
		w.Check(t.Context())
		paused, changed := orders.State()
		if other, _ := mails.State(); !paused || other || log.Count("paused by an operator") != 1 {
			t.Errorf("paused %t and %t\n%s", paused, other, log)
		}
		if err := r.broker.Channel(t).ExchangeDelete(r.Pauses(), false, false); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			w.Check(t.Context()) // RabbitMQ refuses to answer
		}
		if paused, _ := orders.State(); !paused || log.Count("it is not known") != 1 {
			t.Errorf("paused: %t\n%s", paused, log)
		}
		if err := topology.Declare(t.Context(), r.conn, topology.Config{Topology: r.Topology}); err != nil {
			t.Fatal(err)
		}
		w.Check(t.Context())
		select {
		case <-changed:
		default:
			t.Error("the channel is open")
		}
		if paused, _ := orders.State(); paused {
			t.Error("the route is still paused")
		}
	})
}

// unanswered is a publisher whose messages are neither confirmed nor returned.
type unanswered struct{}

func (unanswered) Publish(ctx context.Context, _ rabbit.Message) error {
	<-ctx.Done()
	return ctx.Err()
}

// Without an answer a route that starts handles nothing, and one that is handled stays so.
func TestWatcherWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Watcher{Publisher: unanswered{}, Logger: slog.New(slog.DiscardHandler)}
		orders, mails := w.Switch("orders"), w.Switch("mails")
		mails.set(false) // an earlier answer
		w.Check(t.Context())
		if paused, _ := orders.State(); !paused {
			t.Error("a route about which nothing is known is handled")
		}
		if paused, _ := mails.State(); paused {
			t.Error("a route without an answer was paused")
		}
	})
}

// A check waits for no other one that waits for the broker, once its context has ended.
func TestChecksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Watcher{Publisher: unanswered{}, Logger: slog.New(slog.DiscardHandler)}
		orders, began := w.Switch("orders"), time.Now()
		go w.Check(t.Context())
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.Check(ctx)
		if took := time.Since(began); took != time.Second {
			t.Errorf("the second check took %s", took)
		}
		if paused, _ := orders.State(); paused {
			t.Error("the second check has asked")
		}
		time.Sleep(askTimeout)
		if paused, _ := orders.State(); !paused {
			t.Error("the first check has not ended")
		}
	})
}

// A pause is as durable as a queue.
func TestPauseOutlivesTheBroker(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_FAULTS") == "" {
		t.Skip("WATERSHIP_TEST_FAULTS is not set: this test restarts the brokers, which others may be using")
	}
	rabbittest.NeedServices(t)
	rabbittest.EachServer(t, func(t *testing.T, b rabbittest.Broker) {
		for _, kind := range []topology.QueueType{topology.Quorum, topology.Classic} {
			r := newRig(t, b, kind)
			r.pause(t, "orders")
			b.Service(t, "restart")
			r.want(t, "orders", true)
			r.want(t, "mails", false)
			r.resume(t, "orders")
			r.want(t, "orders", false)
		}
	})
}

// The permissions that docs/permissions.md gives Watership are enough, and others pause nothing.
func TestDocumentedRights(t *testing.T) {
	rabbittest.EachServer(t, func(t *testing.T, b rabbittest.Broker) {
		r := newRig(t, b, topology.Quorum)
		login := r.broker.Login(t, rabbittest.DocumentedRights(t, r.Topology.Prefix, "shop", "orders"))
		as := r.as(t, login)
		as.pause(t, "orders")
		as.want(t, "orders", true)
		as.resume(t, "orders")
		as.want(t, "orders", false)
		stranger := r.as(t, r.broker.Login(t, rabbittest.Rights{Configure: "^$", Write: "^shop$", Read: ".*"}))
		if err := stranger.control().Pause(t.Context(), "orders", "mischief"); err == nil {
			t.Error("a login without permissions has paused a route")
		}
		r.want(t, "orders", false)
	})
}

// as returns the rig with a connection of another login.
func (r rig) as(t *testing.T, login rabbittest.Broker) rig {
	t.Helper()
	conn, err := rabbit.Open(rabbit.Config{URL: login.URL, Name: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r.conn, r.publisher = conn, rabbit.NewPublisher(conn, rabbit.PublisherConfig{})
	t.Cleanup(func() { _ = r.publisher.Close() })
	return r
}

// A pause of all routes is apart from the pauses of single ones, and concerns routes of which a
// process learns later.
func TestAllRoutes(t *testing.T) {
	rabbittest.EachVersion(t, func(t *testing.T, b rabbittest.Broker) {
		r := newRig(t, b, topology.Quorum)
		w := &Watcher{Topology: r.Topology, Publisher: r.publisher, Logger: slog.New(slog.DiscardHandler)}
		want := func(queue string, paused bool) {
			t.Helper()
			w.Check(t.Context())
			if got, _ := w.Switch(queue).State(); got != paused {
				t.Errorf("%s is paused: %t", queue, got)
			}
		}
		w.Switch("orders")
		w.Switch("mails")
		r.pause(t, "orders")
		r.pause(t, All)
		r.want(t, All, true)
		r.want(t, "mails", false)
		want("orders", true)
		want("mails", true)
		w.Switch("later")
		want("later", true)
		r.resume(t, All)
		want("orders", true)
		want("mails", false)
		w.Forget("orders")
		r.resume(t, "orders")
		r.want(t, "orders", false)
		r.want(t, All, false)
	})
}

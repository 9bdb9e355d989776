package pipeline

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// accounts is a service that takes the messages of a key only in their order.
type accounts struct {
	mu       sync.Mutex // guards the fields below
	random   *rand.Rand
	last     map[string]int64 // message of each key that was handled
	early    int              // attempts at messages whose predecessor was not handled
	handled  int
	attempts int
}

func keyOf(e schemas.Envelope) string { key, _ := e.Headers["account"].(string); return key }

func (a *accounts) handle(msg *message.Message) error {
	e, _ := schemas.FromContext(msg.Context())
	n, _ := e.Headers["n"].(int64)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.attempts++
	switch last := a.last[keyOf(e)]; {
	case n <= last:
		return nil // once more
	case n > last+1:
		a.early++
		return retry.Class("ordering", fmt.Errorf("message %d before %d", n, last+1))
	case a.random.IntN(3) == 0:
		return errors.New("busy")
	}
	a.last[keyOf(e)] = n
	a.handled++
	return nil
}

func (a *accounts) done() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.handled
}

// Messages that fail too early go as soon as the one before them is handled, although their class
// waits for hours: in their order, and without losing an attempt.
func TestOrderingReleasesAtOnce(t *testing.T) {
	t.Parallel()
	const keys, each = 5, 12
	b, queue := rabbittest.Newest(t), rabbittest.Name(t)
	service := &accounts{random: rand.New(rand.NewPCG(1, 1)), last: map[string]int64{}}
	r := start(t, b, func(c *Config) {
		c.Routes = []Route{{
			Queue: queue, Handler: handler(service.handle), Breaker: &retry.Breaker{Messages: -1}, Ordering: Ordering{Class: "ordering", Key: keyOf},
			Policy: &retry.Policy{First: 100 * time.Millisecond, Factor: 1, Attempts: 50, Classes: map[string]retry.Policy{"ordering": {Delays: []time.Duration{time.Hour}}}},
		}}
	})
	publishAccounts(r, queue, keys, each)
	rabbittest.Eventually(t, "all messages are handled", func() bool { return service.done() == keys*each })
	if poison := r.all(ofQueue(queue, schemas.Poisoned)); len(poison) > 0 {
		t.Errorf("%d messages are poison", len(poison))
	}
	for _, e := range r.all(ofQueue(queue, schemas.RetryScheduled)) {
		if e.Failure.Class == "ordering" {
			t.Errorf("a message waited for %s: %s", e.Delay, e.Failure.Message)
		}
	}
	if service.early == 0 {
		t.Error("no message was too early")
	}
	t.Logf("%d attempts at %d messages, %d of them too early", service.attempts, keys*each, service.early)
}

// Through processes that end, messages are handled in their order and none is lost or given up;
// one whose predecessor a process does not know has the delays of its class.
func TestOrderingThroughRestarts(t *testing.T) {
	t.Parallel()
	const keys, each = 4, 10
	b, queue := rabbittest.Newest(t), rabbittest.Name(t)
	service := &accounts{random: rand.New(rand.NewPCG(2, 1)), last: map[string]int64{}}
	proxy := b.Proxy(t)
	r := startSilent(t, b, func(c *Config) {
		c.URL, c.StopTimeout = proxy.URL, 100*time.Millisecond
		c.Routes = []Route{{
			Queue: queue, Handler: handler(service.handle), Breaker: &retry.Breaker{Messages: -1}, Ordering: Ordering{Class: "ordering", Key: keyOf}, MaxDeliveries: -1,
			Policy: &retry.Policy{First: 100 * time.Millisecond, Factor: 1, Attempts: 1000},
		}}
	})
	publishAccounts(r, queue, keys, each)
	for n := range 4 {
		rabbittest.Eventually(t, "some messages are handled", func() bool { return service.done() >= (n+1)*keys*each/6 })
		proxy.Cut() // so that no message of the process gets an outcome any more
		_ = r.stop()
		proxy.Mend()
		r.run()
	}
	rabbittest.Eventually(t, "all messages are handled", func() bool { return service.done() == keys*each })
	r.quiet()
	if n := b.Len(t, queue); n != 0 {
		t.Errorf("%d messages are left", n)
	}
}

func publishAccounts(r *rig, queue string, keys, each int) {
	for n := range each {
		for key := range keys {
			r.publish("", queue, amqp.Publishing{
				MessageId: fmt.Sprint(key, "-", n), Headers: amqp.Table{"account": fmt.Sprint("a", key), "n": int64(n + 1)},
			})
		}
	}
}

func TestOrderingIsChecked(t *testing.T) {
	key := func(schemas.Envelope) string { return "" }
	for want, route := range map[string]Route{
		"Ordering: expected a Class and a Key":         {Ordering: Ordering{Class: "ordering"}},
		"Ordering: expected a Class and a Key, and a":  {Ordering: Ordering{Key: key}},
		"has Ordering: expected a handler, and no Fai": {Ordering: Ordering{Class: "ordering", Key: key}, Fairness: Fairness{Key: key}},
	} {
		route.Queue, route.Handler = "a", handler(func(*message.Message) error { return nil })
		if _, err := New(Config{Connection: rabbitmq.Connection{URL: "amqp://localhost"}, Routes: []Route{route}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got\n%v\nwant\n%s", err, want)
		}
	}
}

// A message that waits in the process for long has an event that names what it waits for, and then
// goes on as it would without.
func TestOrderingTellsWhatAMessageWaitsFor(t *testing.T) {
	t.Parallel()
	b, queue := rabbittest.Newest(t), rabbittest.Name(t)
	var paid atomic.Bool
	r := start(t, b, func(c *Config) {
		c.Routes = []Route{{
			Queue: queue, Breaker: &retry.Breaker{Messages: -1}, Ordering: Ordering{Class: "ordering", Key: keyOf},
			Policy: &retry.Policy{First: 200 * time.Millisecond, Factor: 1, Attempts: 1000},
			Handler: handler(func(msg *message.Message) error {
				e, _ := schemas.FromContext(msg.Context())
				switch {
				case paid.Load():
					return nil
				case e.Properties.MessageID == "payment":
					return errors.New("busy")
				}
				return retry.Class("ordering", errors.New("not paid"))
			}),
		}}
	})
	r.publish("", queue, amqp.Publishing{MessageId: "payment", Headers: amqp.Table{"account": "a-1"}})
	r.wait(schemas.RetryScheduled)
	r.publish("", queue, amqp.Publishing{MessageId: "parcel", Headers: amqp.Table{"account": "a-1"}})
	waits := func() []event {
		return r.all(func(e event) bool {
			return e.Action == schemas.RetryScheduled && e.Envelope.Properties.MessageID == "parcel"
		})
	}
	rabbittest.Eventually(t, "an event of the message that waits", func() bool { return len(waits()) > 0 })
	told := waits()[0]
	if told.Failure.Message != `waits for message "payment" of key "a-1": not paid` || told.Failure.Class != "ordering" || told.Attempt != 0 || told.Waits != 0 ||
		told.Delay < 4*time.Minute || told.Delay > 5*time.Minute {
		t.Errorf("%+v", told.State)
	}
	paid.Store(true)
	for _, e := range r.waitFor(2, schemas.Handled) {
		if e.Envelope.Properties.MessageID == "parcel" && (e.Message != told.Message || e.Message == "" || e.Attempt != 1) {
			t.Errorf("%+v after %+v", e.State, told.State)
		}
	}
	if n := len(waits()); n != 1 {
		t.Errorf("%d events", n)
	}
}

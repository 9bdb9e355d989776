package pipeline

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire/report"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// reporting consumes a queue as another program does, and reports on each delivery what
// tell returns. It acknowledges after the confirm.
func reporting(t testing.TB, b rabbittest.Broker, names schemas.Topology, queue string, tell func(amqp.Delivery) amqp.Table) {
	t.Helper()
	ch := b.Channel(t)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	var consumer sync.WaitGroup
	consumer.Go(func() {
		for d := range deliveries {
			confirm, err := ch.PublishWithDeferredConfirm(names.Report(), queue, true, false, reported(d, tell(d)))
			if err != nil || !confirm.Wait() || d.Ack(false) != nil {
				return // the channel has ended
			}
		}
	})
	t.Cleanup(func() {
		_ = ch.Close()
		consumer.Wait()
	})
}

// reported returns the message of a delivery with a report.
func reported(d amqp.Delivery, told amqp.Table) amqp.Publishing {
	p := schemas.FromDelivery(d).Publishing()
	p.Headers = maps.Clone(p.Headers)
	if p.Headers == nil {
		p.Headers = amqp.Table{}
	}
	delete(p.Headers, "CC")
	whole := amqp.Table{"exchange": d.Exchange, "routing-key": d.RoutingKey}
	if p.Expiration != "" {
		whole["expiration"] = p.Expiration
	}
	maps.Copy(whole, told)
	p.Expiration, p.UserId, p.Headers[report.Header] = "", "", whole
	return p
}

// step is an event of a message.
type step struct {
	Action   schemas.Action
	Attempt  int
	Waits    int
	Delay    time.Duration
	Failure  schemas.Failure
	Progress string // with which the attempt was delivered
}

// A consumer in any language says what became of a message, with the words by which an
// HTTP service does.
func TestReports(t *testing.T) {
	t.Parallel() // most of it is waiting
	const short, long = 50 * time.Millisecond, 100 * time.Millisecond
	type attempts []amqp.Table
	scheduled := func(attempt int, delay time.Duration, why schemas.Failure) step {
		return step{Action: schemas.RetryScheduled, Attempt: attempt, Delay: delay, Failure: why}
	}
	poisoned := func(attempt int, why schemas.Failure) step {
		return step{Action: schemas.Poisoned, Attempt: attempt, Failure: why}
	}
	why := func(text, errorType, class string) schemas.Failure {
		return schemas.Failure{Message: text, Type: errorType, Class: class}
	}
	const unnamed = "reported as %s by a consumer of queue %q"
	queueOfTest := ""
	cases := map[string]struct {
		reports attempts
		want    func() []step
	}{
		"handled": {attempts{{"outcome": "handled"}}, func() []step { return []step{{Action: schemas.Handled, Attempt: 1}} }},
		"retried until handled": {
			attempts{
				{"outcome": "retry", "error": "no stock", "error-type": "StockError", "stack": "shop.py:7"},
				{"outcome": "retry", "error": []byte("caf\xe9"), "class": nil},
				{"outcome": "handled"},
			},
			func() []step {
				return []step{
					scheduled(1, short, schemas.Failure{Message: "no stock", Type: "StockError", Class: "default", Stack: "shop.py:7"}),
					scheduled(2, long, why("caf?", "report", "default")),
					{Action: schemas.Handled, Attempt: 3},
				}
			},
		},
		"retried until poison": {
			attempts{{"outcome": "retry"}, {"outcome": "retry"}, {"outcome": "retry"}},
			func() []step {
				failed := why(fmt.Sprintf(unnamed, "retry", queueOfTest), "report", "default")
				return []step{scheduled(1, short, failed), scheduled(2, long, failed), poisoned(3, failed)}
			},
		},
		"class": {
			attempts{{"outcome": "retry", "error": "too early", "class": "ordering"}, {"outcome": "retry", "error": "too early", "class": "ordering"}},
			func() []step {
				early := why("too early", "report", "ordering")
				return []step{scheduled(1, 70*time.Millisecond, early), poisoned(2, early)}
			},
		},
		"delay": {
			attempts{
				{"outcome": "retry", "error": "later", "delay": int32(150)}, {"outcome": "retry", "error": "later", "delay": "0"}, {"outcome": "handled"},
			},
			func() []step {
				later := why("later", "report", "default")
				return []step{scheduled(1, 150*time.Millisecond, later), scheduled(2, 100*time.Millisecond, later), {Action: schemas.Handled, Attempt: 3}}
			},
		},
		"poison": {
			attempts{{"outcome": "poison", "error": "no such product", "error-type": "Invalid"}},
			func() []step { return []step{poisoned(1, why("no such product", "Invalid", "default"))} },
		},
		"group": {
			attempts{{"outcome": "poison", "error": "item 17 is gone", "error-group": "sold out"}},
			func() []step {
				return []step{poisoned(1, schemas.Failure{Message: "item 17 is gone", Type: "report", Class: "default", Group: "sold out"})}
			},
		},
		"unavailable": {
			attempts{{"outcome": "unavailable", "error": "no database"}, {"outcome": "unavailable", "error": "no database"}, {"outcome": "handled"}},
			func() []step {
				gone := why("no database", "report", "default")
				waits := step{Action: schemas.RetryScheduled, Waits: 1, Delay: time.Second, Failure: gone}
				return []step{waits, waitedAndScheduled(1, 1, short, gone), {Action: schemas.Handled, Attempt: 2, Waits: 1}}
			},
		},
		"progress": {
			attempts{
				{"outcome": "retry", "error": "stopped", "progress": `{"page": 7}`},
				{"outcome": "retry", "error": strings.Repeat("e", 2000)},
				{"outcome": "handled"},
			},
			func() []step {
				return []step{
					scheduled(1, short, why("stopped", "report", "default")),
					{Action: schemas.RetryScheduled, Attempt: 2, Delay: long, Progress: `{"page": 7}`, Failure: schemas.Failure{Message: strings.Repeat("e", 1021) + "…", Type: "report", Class: "default", Group: "#"}},
					{Action: schemas.Handled, Attempt: 3, Progress: `{"page": 7}`},
				}
			},
		},
		"too much progress": {
			attempts{
				{"outcome": "retry", "error": "stopped", "progress": "1"},
				{"outcome": "retry", "error": "stopped", "progress": strings.Repeat("p", 4097)},
				{"outcome": "handled"},
			},
			func() []step {
				return []step{
					scheduled(1, short, why("stopped", "report", "default")),
					{Action: schemas.RetryScheduled, Attempt: 2, Delay: long, Progress: "1", Failure: why("its progress of 4097 bytes is dropped: at most 4096 fit; stopped", "report", "default")},
					{Action: schemas.Handled, Attempt: 3, Progress: "1"},
				}
			},
		},
		"a word of a later version": {
			attempts{{"outcome": "handled", "mood": "good"}}, func() []step { return []step{{Action: schemas.Handled, Attempt: 1}} },
		},
	}
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		shop, queue, other := topicExchange(t, b), b.Queue(t, nil), b.Queue(t, nil)
		queueOfTest = queue
		for _, name := range []string{queue, other} {
			if err := b.Channel(t).QueueBind(name, "#", shop, false, nil); err != nil {
				t.Fatal(err)
			}
		}
		r := start(t, b, func(c *Config) {
			c.Tap = []Tap{{Exchange: shop, Type: "topic"}}
			c.Routes = []Route{{
				Queue: queue, Breaker: &retry.Breaker{MaxWaits: 1},
				Policy: &retry.Policy{
					Delays:  []time.Duration{short, long},
					Classes: map[string]retry.Policy{"ordering": {Delays: []time.Duration{70 * time.Millisecond}}},
				},
			}}
		})
		var mu sync.Mutex
		progress := map[string][]string{}
		reporting(t, b, r.topology, queue, func(d amqp.Delivery) amqp.Table {
			mu.Lock()
			defer mu.Unlock()
			n := len(progress[d.MessageId])
			text, _ := d.Headers["watership-progress"].(string)
			progress[d.MessageId] = append(progress[d.MessageId], text)
			return cases[d.MessageId].reports[n]
		})
		fingerprints := map[string]string{}
		for name := range cases {
			e := schemas.Envelope{
				Exchange: shop, RoutingKey: "order.created", Body: []byte(name),
				Properties: schemas.Properties{MessageID: name, DeliveryMode: amqp.Persistent, Priority: 3, Expiration: "3600000", Type: "order", Timestamp: time.Unix(1700000000, 0)},
				Headers:    amqp.Table{"tenant": "acme", "n": int32(7), "list": []any{int64(1), "x"}, report.Header: amqp.Table{"outcome": "poison", "progress": "forged"}},
			}
			fingerprints[name] = e.Fingerprint()
			r.publish(e.Exchange, e.RoutingKey, e.Publishing())
		}
		for name, test := range cases {
			want := test.want()
			var got []step
			rabbittest.Eventually(t, name, func() bool {
				got = nil
				for _, e := range r.all(func(e event) bool { return e.Envelope.Properties.MessageID == name }) {
					got = append(got, step{e.Action, e.Attempt, e.Waits, e.Delay, e.Failure, ""})
					if e.Fingerprint != fingerprints[name] || e.Envelope.Exchange != shop || e.Envelope.RoutingKey != "order.created" ||
						e.Envelope.Properties.Expiration != "3600000" || e.Envelope.Properties.Priority != 3 || e.Queue != queue || !e.OriginClaimed {
						t.Fatalf("%s: %+v of %+v", name, e.State, e.Envelope)
					}
					if tapped := e.Action != schemas.Poisoned; tapped != (e.Body == 0) {
						t.Fatalf("%s: the event %s has a body of %d bytes", name, e.Action, e.Body)
					}
				}
				return len(got) >= len(want)
			})
			mu.Lock()
			for i := range got {
				if i < len(progress[name]) {
					got[i].Progress = progress[name][i]
				}
			}
			mu.Unlock()
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		r.quiet()
		if n := b.Len(t, other); n != len(cases) {
			t.Errorf("another queue of the exchange has %d messages: expected %d, the published ones", n, len(cases))
		}
	})
}

func waitedAndScheduled(attempt, waits int, delay time.Duration, why schemas.Failure) step {
	return step{Action: schemas.RetryScheduled, Attempt: attempt, Waits: waits, Delay: delay, Failure: why}
}

// A report that cannot be read loses no message and says what is wrong.
func TestMalformedReports(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := b.Queue(t, nil)
		r := start(t, b, nil)
		origin := amqp.Table{"exchange": "shop", "routing-key": "k"}
		with := func(more amqp.Table) amqp.Table {
			whole := maps.Clone(origin)
			maps.Copy(whole, more)
			return whole
		}
		cases := map[string]struct {
			told any
			want string
		}{
			"nothing":      {nil, "there is no header watership-report"},
			"text":         {"handled", "the header watership-report is no table"},
			"no outcome":   {with(nil), "its outcome is missing: expected handled, retry, poison or unavailable"},
			"two mistakes": {with(amqp.Table{"outcome": "done", "delay": int32(-1)}), "its outcome is \"done\": expected handled, retry, poison or unavailable\nits delay is \"-1\": expected whole milliseconds"},
			"no origin":    {amqp.Table{"outcome": "handled"}, "its exchange is missing: expected text, as in the delivery\nits routing-key is missing: expected text, as in the delivery"},
			"a number":     {with(amqp.Table{"outcome": "retry", "error": int32(5)}), "its error is \"5\": expected text"},
			"a fraction":   {with(amqp.Table{"outcome": "retry", "delay": 1.5}), "its delay is \"1.5\": expected whole milliseconds"},
			"expiration":   {with(amqp.Table{"outcome": "retry", "expiration": "soon"}), "its expiration is \"soon\": expected whole milliseconds"},
			"long":         {with(amqp.Table{"outcome": strings.Repeat("x", 99)}), "its outcome is \"" + strings.Repeat("x", 63) + "…: expected handled, retry, poison or unavailable"},
		}
		for name, test := range cases {
			headers := amqp.Table{report.Header: test.told}
			if test.told == nil {
				headers = amqp.Table{"tenant": "acme"}
			}
			r.publish(r.topology.Report(), queue, amqp.Publishing{MessageId: name, Headers: headers, Body: []byte("x")})
		}
		for _, e := range r.waitFor(len(cases), schemas.Poisoned) {
			name := e.Envelope.Properties.MessageID
			want := "its report cannot be read: " + cases[name].want
			if e.Failure.Message != want || e.Failure.Type != "malformed report" || e.Queue != queue || e.Attempt != 1 || string(e.Envelope.Body) != "x" {
				t.Errorf("%s: %+v\nwant %s", name, e.State, want)
			}
			if _, left := e.Envelope.Headers[report.Header]; left || e.Envelope.Exchange != "" || e.Envelope.RoutingKey != queue || e.OriginClaimed {
				t.Errorf("%s: %+v, claimed %v", name, e.Envelope, e.OriginClaimed)
			}
		}
		r.quiet()
	})
}

// A report that expires before it is read becomes poison.
func TestExpiredReportIsNotLost(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := b.Queue(t, nil)
		r := start(t, b, nil)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		told := amqp.Table{"outcome": "handled", "exchange": "", "routing-key": queue}
		r.publish(r.topology.Report(), queue, amqp.Publishing{Expiration: "1", Headers: amqp.Table{report.Header: told}, Body: []byte("x")})
		rabbittest.Eventually(t, "it expires", func() bool { return b.Len(t, r.topology.Retry()) == 1 })
		r.run()
		e := r.wait(schemas.Poisoned)
		if !strings.Contains(e.Failure.Message, "expected a report without the property expiration") || string(e.Envelope.Body) != "x" || e.Queue != "" {
			t.Errorf("%+v", e.State)
		}
	})
}

// A consumer whose confirm is lost, or that ends before its acknowledgement, reports once
// more: the message then has two copies, and none is lost.
func TestReportedTwice(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		queue := b.Queue(t, nil)
		r := start(t, b, nil)
		r.publish("", queue, amqp.Publishing{MessageId: "m", Body: []byte("x")})
		retries := func(amqp.Delivery) amqp.Table { return amqp.Table{"outcome": "retry", "error": "no"} }
		for range 2 { // the first ends between the confirm and the acknowledgement
			ch := b.Channel(t)
			var d amqp.Delivery
			rabbittest.Eventually(t, "a delivery", func() bool {
				var ok bool
				d, ok, _ = ch.Get(queue, false)
				return ok
			})
			r.publish(r.topology.Report(), queue, reported(d, retries(d)))
			r.waitFor(1, schemas.RetryScheduled)
			if d.Redelivered {
				_ = d.Ack(false)
			}
			_ = ch.Close()
		}
		r.waitFor(2, schemas.RetryScheduled)
		reporting(t, b, r.topology, queue, func(amqp.Delivery) amqp.Table { return amqp.Table{"outcome": "handled"} })
		instances := map[string]bool{}
		for _, e := range r.waitFor(2, schemas.Handled) {
			instances[e.Message] = true
			if e.Attempt != 2 {
				t.Errorf("%+v", e.State)
			}
		}
		if len(instances) != 2 {
			t.Errorf("instances %v: expected one for each copy", instances)
		}
	})
}

package pipeline

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/internal/wire/report"
	"github.com/watershipmq/watership/schemas"
)

// A login that may report on one queue reports on no other, by whatever way its message
// reaches the exchange of reports.
func TestReportsOnQueuesOfOthers(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachServer(t, func(t *testing.T, b rabbittest.Broker) {
		o := startTown(t, b, nil)
		own, reports := rabbittest.Name(t), o.topology.Report()
		mine := "^" + own
		login := o.broker.Login(t, rabbittest.Rights{Configure: mine, Write: mine + "|^" + reports + "$", Read: mine})
		o.broker.GrantTopic(t, login, reports, "^"+own+"$")
		told := amqp.Publishing{Headers: amqp.Table{report.Header: amqp.Table{"outcome": "retry", "exchange": "", "routing-key": o.victim}}}

		ch := login.Channel(t)
		refused := ch.NotifyClose(make(chan *amqp.Error, 1))
		if err := ch.Publish(reports, o.victim, false, false, told); err != nil {
			t.Fatal(err)
		}
		if err := rabbittest.Receive(t, refused); err == nil || err.Code != amqp.AccessRefused {
			t.Errorf("it may report on a queue of others: %v", err)
		}

		ch = login.Channel(t)
		exchange, alternate, queue := own+".exchange", own+".alternate", own+".queue"
		for name, args := range map[string]amqp.Table{exchange: nil, alternate: {"alternate-exchange": reports}} {
			if err := ch.ExchangeDeclare(name, "fanout", true, false, false, false, args); err != nil {
				t.Fatal(err)
			}
			b.DeleteExchange(t, name)
		}
		if err := ch.ExchangeBind(reports, "", exchange, false, nil); err != nil {
			t.Fatal(err)
		}
		deaths := amqp.Table{"x-dead-letter-exchange": reports, "x-dead-letter-routing-key": o.victim}
		if _, err := ch.QueueDeclare(queue, true, false, false, false, deaths); err != nil {
			t.Fatal(err)
		}
		attacks := []string{exchange, alternate}
		for _, by := range attacks {
			if err := ch.Publish(by, o.victim, false, false, told); err != nil {
				t.Fatal(err)
			}
		}
		// RabbitMQ checks no permission for the routing key of a dead letter.
		told.Expiration = "1"
		o.publish("", queue, told)
		died := told
		died.Headers = maps.Clone(told.Headers) // x-death that no client reads, where the broker keeps it
		died.Headers["x-death"] = []any{amqp.Table{"queue": queue, "reason": "rejected", "exchange": "", "count": int64(1), "more": deepArray("x")}}
		o.publish("", queue, died)
		for _, e := range o.waitFor(len(attacks)+2, schemas.Poisoned) {
			if e.Queue != "" || e.Envelope.Exchange == "" {
				t.Errorf("%+v of exchange %q", e.State, e.Envelope.Exchange)
			}
		}
		o.quiet()
		if n := len(o.all(func(event) bool { return true })); n != len(attacks)+2 || o.broker.Len(t, o.victim) > 0 {
			t.Errorf("%d events, and %d messages in a queue of others:\n%s", n, o.broker.Len(t, o.victim), o.eventText())
		}
	})
}

// The permissions of docs/permissions.md let a service report on its queue, and on no other.
func TestDocumentedRightsOfReporters(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.EachServer(t, func(t *testing.T, b rabbittest.Broker) {
		b = b.VHost(t)
		shop, own, other := topicExchange(t, b), b.Queue(t, nil), b.Queue(t, nil)
		r := start(t, b, nil)
		names := map[string]string{"invoices": own, "shop": shop, "watership": r.topology.Prefix}
		login := b.Login(t, rabbittest.DocumentedRightsOf(t, "reporting", names))
		b.GrantTopic(t, login, r.topology.Report(), rabbittest.DocumentedTopic(t, "reporting", names))
		r.publish("", own, amqp.Publishing{Body: []byte("x")})
		reporting(t, login, r.topology, own, func(amqp.Delivery) amqp.Table { return amqp.Table{"outcome": "handled"} })
		r.wait(schemas.Handled)
		ch := login.Channel(t)
		refused := ch.NotifyClose(make(chan *amqp.Error, 1))
		if err := ch.Publish(r.topology.Report(), other, false, false, amqp.Publishing{}); err != nil {
			t.Fatal(err)
		}
		if err := rabbittest.Receive(t, refused); err == nil || err.Code != amqp.AccessRefused {
			t.Errorf("it may report on another queue: %v", err)
		}
	})
}

// Without keys a consumer can say what it likes of the attempts at its own messages. It
// chooses neither the user nor the copies of a message, nor an origin that counts as proven.
func TestForgedStatesInReports(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		r := start(t, b, func(c *Config) { c.Default = attemptsAfter(50*time.Millisecond, 50*time.Millisecond, time.Hour) })
		own, victim := b.Queue(t, amqp.Table{"x-dead-letter-exchange": r.topology.Retry()}), b.Queue(t, nil)
		state := schemas.State{Queue: own, Attempt: 1, Message: "mine", Route: true, Park: true, MissingSince: time.Unix(1, 0)}
		e := schemas.Envelope{RoutingKey: victim, Body: []byte("x"), Properties: schemas.Properties{UserID: "guest"}}
		p := wire.DefaultFrameMax.WrapForQueue(e, withFingerprint(state, e), "")
		p.Headers["CC"], p.Headers["BCC"], p.Headers["watership-cc"] = []any{victim}, []any{victim}, []any{victim}
		tell := func(outcome string) {
			p.Headers[report.Header] = amqp.Table{"outcome": outcome, "error": "no", "exchange": r.topology.Return(), "routing-key": victim}
			r.publish(r.topology.Report(), own, p)
		}
		tell("retry")
		d := b.Take(t, own, 1)[0]
		if d.UserId != "" || d.Exchange != r.topology.Return() || d.Headers["watership-origin-claimed"] != int64(1) || d.Headers["CC"] != nil {
			t.Errorf("it came back by exchange %q with user %q and %v", d.Exchange, d.UserId, d.Headers)
		}
		r.publish(r.topology.Return(), "k", amqp.Publishing{Headers: d.Headers, Body: d.Body}) // as Take acknowledged it
		rejectOne(t, b, own)
		r.waitFor(2, schemas.RetryScheduled)
		tell("handled")
		tell("poison")
		r.waitFor(1, schemas.Handled)
		r.waitFor(1, schemas.Poisoned)
		attempts := map[schemas.Action][]int{}
		for _, e := range r.all(func(event) bool { return true }) {
			attempts[e.Action] = append(attempts[e.Action], e.Attempt)
			if !e.OriginClaimed || e.Queue != own || e.Message != "mine" || e.Envelope.Headers["CC"] != nil || e.Envelope.Headers["BCC"] != nil ||
				e.Envelope.Properties.UserID != "" {
				t.Errorf("%s: %+v of %+v", e.Action, e.State, e.Envelope)
			}
		}
		want := map[schemas.Action][]int{schemas.RetryScheduled: {2, 3}, schemas.Handled: {2}, schemas.Poisoned: {2}}
		if diff := cmp.Diff(want, attempts); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
		if n := b.Len(t, victim); n > 0 {
			t.Errorf("%d messages reached a queue of others", n)
		}
	})
}

func withFingerprint(s schemas.State, e schemas.Envelope) schemas.State {
	s.Fingerprint = e.Fingerprint()
	return s
}

// With keys a state counts in a report only as Watership signed it for the queue, and with
// the message that it is about.
func TestSignedStatesInReports(t *testing.T) {
	t.Parallel() // most of it is waiting
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		keys, err := schemas.ParseStateKeys([]byte(strings.Repeat("k", 64)))
		if err != nil {
			t.Fatal(err)
		}
		queue, another := b.Queue(t, nil), b.Queue(t, nil)
		r := start(t, b, func(c *Config) { c.StateKeys, c.Default = keys, attemptsAfter(50*time.Millisecond, time.Hour) })
		report := func(to string, d amqp.Delivery, change func(*amqp.Publishing)) {
			p := reported(d, amqp.Table{"outcome": "retry", "error": "no"})
			if change != nil {
				change(&p)
			}
			r.publish(r.topology.Report(), to, p)
		}
		first := amqp.Publishing{MessageId: "m", Headers: amqp.Table{"n": int32(7)}, Body: []byte("x")}
		report(queue, amqp.Delivery{Exchange: "", RoutingKey: queue, MessageId: "m", Headers: first.Headers, Body: first.Body}, nil)
		d := b.Take(t, queue, 1)[0]
		cases := []struct {
			name    string
			to      string
			change  func(*amqp.Publishing)
			attempt int
		}{
			{"as it was signed", queue, nil, 2},
			{"with other types of numbers", queue, func(p *amqp.Publishing) {
				p.Headers["watership-v"], p.Headers["watership-attempt"] = int8(1), int16(1)
			}, 2},
			{"of another queue", another, nil, 1},
			{"another body", queue, func(p *amqp.Publishing) { p.Body = []byte("y") }, 1},
			{"another attempt", queue, func(p *amqp.Publishing) { p.Headers["watership-attempt"] = int64(0) }, 1},
			{"another origin", queue, func(p *amqp.Publishing) { p.Headers["watership-origin-routing-key"] = another }, 1},
			{"unsigned", queue, func(p *amqp.Publishing) { delete(p.Headers, "watership-signature") }, 1},
			{"of another exchange", queue, func(p *amqp.Publishing) {
				table := p.Headers["watership-report"].(amqp.Table)
				table["exchange"], table["routing-key"] = "shop", "k"
			}, 1},
		}
		for i, test := range cases {
			report(test.to, d, test.change)
			e := r.waitFor(i+2, schemas.RetryScheduled)[i+1]
			if e.Attempt != test.attempt {
				t.Errorf("%s: attempt %d", test.name, e.Attempt)
			}
			if shop := test.name == "of another exchange"; e.OriginClaimed != shop {
				t.Errorf("%s: of exchange %q, key %q, claimed %v", test.name, e.Envelope.Exchange, e.Envelope.RoutingKey, e.OriginClaimed)
			}
		}
	})
}

// A queue that a consumer reports on may be missing for as long as any, whatever the state
// in the report says.
func TestForgedMissingSince(t *testing.T) {
	b := rabbittest.Newest(t)
	r := start(t, b, nil)
	gone := rabbittest.Name(t)
	e := schemas.Envelope{RoutingKey: gone, Body: []byte("x")}
	p := wire.DefaultFrameMax.Wrap(e, withFingerprint(schemas.State{Queue: gone, MissingSince: time.Unix(1, 0)}, e))
	p.Headers[report.Header] = amqp.Table{"outcome": "retry", "exchange": r.topology.Return(), "routing-key": gone}
	r.publish(r.topology.Report(), gone, p)
	r.wait(schemas.RetryScheduled)
	waits := wire.DelaysOf(r.topology).Queue(10 * time.Second)
	rabbittest.Eventually(t, "it waits for its queue", func() bool {
		there, err := b.Channel(t).QueueDeclarePassive(waits, true, false, false, false, nil)
		return err == nil && there.Messages == 1
	})
}

// A service reads which marks replays have. It can report on its own messages alone.
func TestReportWithAMarkOfAnotherMessage(t *testing.T) {
	b := rabbittest.Newest(t)
	queue := b.Queue(t, nil)
	r := start(t, b, nil)
	other := schemas.Envelope{RoutingKey: "elsewhere", Body: []byte("another")}
	p := amqp.Publishing{Headers: amqp.Table{
		"watership-v": int64(1), "watership-fingerprint": other.Fingerprint(), "watership-replay": "job", "watership-replay-of": "01A",
		report.Header: amqp.Table{"outcome": "handled", "exchange": "", "routing-key": queue},
	}, Body: []byte("x")}
	r.publish(r.topology.Report(), queue, p)
	if e := r.wait(schemas.Handled); e.Replay != "" || e.ReplayOf != "" || e.Fingerprint == other.Fingerprint() {
		t.Errorf("%+v", e.State)
	}
}

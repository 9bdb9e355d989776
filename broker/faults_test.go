package broker_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
)

// publisher is a channel with confirms, and the answers it got.
type publisher struct {
	t        *testing.T
	conn     *amqp.Connection
	ch       *amqp.Channel
	confirms chan amqp.Confirmation
	returns  chan amqp.Return
	closed   chan *amqp.Error
}

func newPublisher(t *testing.T, url string) *publisher {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p := &publisher{t: t, conn: conn, ch: channel(t, conn)}
	if err := p.ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	p.confirms = p.ch.NotifyPublish(make(chan amqp.Confirmation, 10))
	p.returns = p.ch.NotifyReturn(make(chan amqp.Return, 10))
	p.closed = p.ch.NotifyClose(make(chan *amqp.Error, 1))
	declare(t, p.ch, "q", nil)
	return p
}

func (p *publisher) publish(exchange string) {
	p.t.Helper()
	if err := p.ch.Publish(exchange, "q", true, false, amqp.Publishing{Body: []byte("body")}); err != nil {
		p.t.Fatal(err)
	}
}

func TestFaultsOfPublishes(t *testing.T) {
	for name, c := range map[string]struct {
		do    broker.Outcome
		kept  int
		check func(p *publisher)
	}{
		"nack": {broker.Nack(), 0, func(p *publisher) {
			if receive(p.t, p.confirms).Ack {
				p.t.Error("acked")
			}
		}},
		"unroutable": {broker.Unroutable(), 0, func(p *publisher) {
			if r := receive(p.t, p.returns); r.ReplyCode != amqp.NoRoute || string(r.Body) != "body" {
				p.t.Errorf("returned %+v", r)
			}
			if !receive(p.t, p.confirms).Ack {
				p.t.Error("nacked")
			}
		}},
		"close the channel": {broker.CloseChannel(406, "PRECONDITION_FAILED - by the test"), 0, func(p *publisher) {
			want(p.t, receive(p.t, p.closed), "PRECONDITION_FAILED - by the test")
			if p.conn.IsClosed() {
				p.t.Error("the connection is closed, too")
			}
		}},
		"close the connection": {broker.CloseConnection(541, "INTERNAL_ERROR - by the test"), 0, func(p *publisher) {
			want(p.t, receive(p.t, p.closed), "INTERNAL_ERROR - by the test")
		}},
		"drop the connection": {broker.DropConnection(), 1, func(p *publisher) {
			receive(p.t, p.closed)
			if confirm, told := <-p.confirms; told {
				p.t.Errorf("told %+v", confirm)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := broker.Start(t, broker.Config{})
			p := newPublisher(t, b.URL())
			b.Inject(broker.Fault{Match: func(p broker.Request) bool { return p.Exchange == "" && p.Mandatory }, Times: 1, Do: c.do})
			p.publish("amq.fanout") // returned, as no queue is bound
			receive(t, p.returns)
			receive(t, p.confirms)
			p.publish("")
			c.check(p)
			if kept := b.QueueLengths("/")["q"]; kept != c.kept {
				t.Errorf("%d messages, want %d", kept, c.kept)
			}
			again := newPublisher(t, b.URL())
			again.publish("") // the fault is spent
			if !receive(t, again.confirms).Ack || b.QueueLengths("/")["q"] != c.kept+1 {
				t.Error("the next publish was not taken")
			}
		})
	}
}

func TestFaultUntilItIsRemoved(t *testing.T) {
	b := broker.Start(t, broker.Config{})
	p := newPublisher(t, b.URL())
	remove := b.Inject(broker.Fault{Do: broker.Nack()})
	for range 3 {
		p.publish("")
		if receive(t, p.confirms).Ack {
			t.Error("acked")
		}
	}
	remove()
	p.publish("")
	if !receive(t, p.confirms).Ack {
		t.Error("nacked")
	}
	tx := channel(t, p.conn)
	if err := tx.Tx(); err != nil {
		t.Fatal(err)
	}
	b.Inject(broker.Fault{Do: broker.Nack()})
	publish(t, tx, "q", amqp.Publishing{})
	want(t, tx.TxCommit(), "PRECONDITION_FAILED - partial tx completion")
}

func TestDelay(t *testing.T) {
	inBubbleWith(t, func(t *testing.T, b *broker.Broker, ch *amqp.Channel) {
		b.Inject(broker.Fault{Method: "queue.declare", Do: broker.Delay(20 * time.Second)})
		begin := time.Now()
		declare(t, ch, "q", nil)
		if took := time.Since(begin); took != 20*time.Second {
			t.Errorf("declared after %v", took)
		}
	})
}

func TestDelayConfirm(t *testing.T) {
	inBubbleWith(t, func(t *testing.T, b *broker.Broker, ch *amqp.Channel) {
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		declare(t, ch, "q", amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"})
		b.Inject(broker.Fault{Do: broker.DelayConfirm(20 * time.Second), Times: 2})
		begin := time.Now()
		var sent []*amqp.DeferredConfirmation
		for range 3 { // the queue accepts the first one only
			sent = append(sent, publishDeferred(t, ch))
		}
		if sent[2].Wait() || time.Since(begin) != 0 {
			t.Error("the third is acked, or late")
		}
		if n := length(t, ch, "q"); n != 1 || sent[0].Acked() {
			t.Errorf("%d messages, want 1 and no confirm", n)
		}
		if !sent[0].Wait() || sent[1].Wait() || time.Since(begin) != 20*time.Second {
			t.Errorf("acked %t and %t after %v", sent[0].Acked(), sent[1].Acked(), time.Since(begin))
		}
		b.Inject(broker.Fault{Do: broker.DelayConfirm(20 * time.Second), Times: 1})
		publishDeferred(t, ch)
		if err := ch.Close(); err != nil { // and no confirm comes to a closed channel
			t.Error(err)
		}
		time.Sleep(time.Minute)
	})
}

// A confirm for several messages at once would include the delayed one.
func TestDelayConfirmAmongMany(t *testing.T) {
	b := broker.Start(t, broker.Config{})
	ch := channel(t, newPublisher(t, b.URL()).conn)
	if err := ch.Confirm(false); err != nil {
		t.Fatal(err)
	}
	b.Inject(broker.Fault{Do: broker.DelayConfirm(time.Hour), Times: 1})
	delayed := publishDeferred(t, ch)
	all := make(chan struct{})
	b.Inject(broker.Fault{Match: func(broker.Request) bool { <-all; return false }, Do: broker.Nack()})
	for range 100 { // which the broker reads together
		publishDeferred(t, ch)
	}
	close(all)
	if last := publishDeferred(t, ch); !last.Wait() || delayed.Acked() {
		t.Errorf("acked %t, and the delayed one %t", last.Acked(), delayed.Acked())
	}
}

func publishDeferred(t *testing.T, ch *amqp.Channel) *amqp.DeferredConfirmation {
	t.Helper()
	confirm, err := ch.PublishWithDeferredConfirm("", "q", false, false, amqp.Publishing{})
	if err != nil {
		t.Fatal(err)
	}
	return confirm
}

func TestFaultsOfMethods(t *testing.T) {
	b := broker.Start(t, broker.Config{})
	conn := newPublisher(t, b.URL()).conn
	b.Inject(broker.Fault{Method: "basic.consume", Times: 1, Do: broker.CloseChannel(403, "ACCESS_REFUSED - by the test")})
	ch := channel(t, conn)
	_, err := ch.Consume("q", "", true, false, false, false, nil)
	want(t, err, "ACCESS_REFUSED - by the test")
	if _, err = channel(t, conn).Consume("q", "", true, false, false, false, nil); err != nil {
		t.Errorf("the second consumer: %v", err)
	}
	b.Inject(broker.Fault{Method: "queue.declare", Times: 1, Do: broker.DropConnection()})
	if _, err = channel(t, conn).QueueDeclare("made", false, false, false, false, nil); err == nil {
		t.Error("the client got an answer")
	}
	if _, made := b.QueueLengths("/")["made"]; !made {
		t.Error("the queue was not declared")
	}
}

func TestRequestsOfFaults(t *testing.T) {
	b := broker.Start(t, broker.Config{VHosts: []string{"shop"}})
	ch := newPublisher(t, b.URL()).ch
	for _, c := range []struct {
		method string
		do     func() error
		want   broker.Request
	}{
		{"exchange.declare", func() error { return ch.ExchangeDeclare("x", "fanout", false, false, false, false, nil) }, broker.Request{Exchange: "x"}},
		{"exchange.bind", func() error { return ch.ExchangeBind("amq.fanout", "k", "x", false, nil) }, broker.Request{Exchange: "x", RoutingKey: "k"}},
		{"exchange.unbind", func() error { return ch.ExchangeUnbind("amq.fanout", "k", "x", false, nil) }, broker.Request{Exchange: "x", RoutingKey: "k"}},
		{"queue.declare", func() error { _, err := ch.QueueDeclare("q", true, false, false, false, nil); return err }, broker.Request{Queue: "q"}},
		{"queue.bind", func() error { return ch.QueueBind("q", "k", "x", false, nil) }, broker.Request{Queue: "q", Exchange: "x", RoutingKey: "k"}},
		{"queue.unbind", func() error { return ch.QueueUnbind("q", "k", "x", nil) }, broker.Request{Queue: "q", Exchange: "x", RoutingKey: "k"}},
		{"basic.qos", func() error { return ch.Qos(1, 0, false) }, broker.Request{}},
		{"basic.consume", func() error { _, err := ch.Consume("q", "tag", false, false, false, false, nil); return err }, broker.Request{Queue: "q"}},
		{"basic.cancel", func() error { return ch.Cancel("tag", false) }, broker.Request{}},
		{"basic.publish", func() error { return ch.Publish("", "q", true, false, amqp.Publishing{Body: []byte("b")}) }, broker.Request{RoutingKey: "q", Mandatory: true, Body: []byte("b")}},
		{"basic.get", func() error { _, _, err := ch.Get("q", false); return err }, broker.Request{Queue: "q"}},
		{"basic.nack", func() error { return ch.Nack(1, false, true) }, broker.Request{}},
		{"queue.purge", func() error { _, err := ch.QueuePurge("q", false); return err }, broker.Request{Queue: "q"}},
		{"queue.delete", func() error { _, err := ch.QueueDelete("q", false, false, false); return err }, broker.Request{Queue: "q"}},
		{"exchange.delete", func() error { return ch.ExchangeDelete("x", false, false) }, broker.Request{Exchange: "x"}},
	} {
		requests := make(chan broker.Request, 10)
		remove := b.Inject(broker.Fault{Method: c.method, Do: broker.DropConnection(), Match: func(r broker.Request) bool {
			requests <- r
			return false
		}})
		if err := c.do(); err != nil {
			t.Fatalf("%s: %v", c.method, err)
		}
		c.want.VHost, c.want.User = "shop", "guest"
		if got := receive(t, requests); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.method, got, c.want)
		}
		remove()
	}
}

func TestFaultsThatCannotBe(t *testing.T) {
	b := broker.New(broker.Config{})
	defer b.Close()
	for want, f := range map[string]broker.Fault{
		`no fault can be injected into "queue.declar": name a method`: {Method: "queue.declar", Do: broker.DropConnection()},
		"a fault has no outcome: set Fault.Do":                        {},
		"for basic.publish, not for queue.declare: use CloseChannel":  {Method: "queue.declare", Do: broker.Nack()},
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
					t.Errorf("%s, want %s", got, want)
				}
			}()
			b.Inject(f)
		}()
	}
}

func TestFaultsOfConnections(t *testing.T) {
	b := broker.Start(t, broker.Config{})
	p := newPublisher(t, b.URL())
	b.RefuseConnections(true)
	if _, err := amqp.Dial(b.URL()); err == nil {
		t.Error("a connection is let in")
	}
	p.publish("")
	if !receive(t, p.confirms).Ack {
		t.Error("an open connection is refused, too")
	}
	b.RefuseConnections(false)
	newPublisher(t, b.URL())
	if n := b.CloseConnections("maintenance"); n != 2 {
		t.Errorf("%d connections were closed, want 2", n)
	}
	want(t, receive(t, p.closed), "CONNECTION_FORCED - maintenance")
}

func TestAlarmOnDemand(t *testing.T) {
	b := broker.Start(t, broker.Config{})
	p := newPublisher(t, b.URL())
	blocked := p.conn.NotifyBlocked(make(chan amqp.Blocking, 2))
	b.SetMemoryAlarm(true)
	p.publish("")
	if state := receive(t, blocked); !state.Active {
		t.Errorf("%+v", state)
	}
	b.SetMemoryAlarm(false)
	if state := receive(t, blocked); state.Active {
		t.Errorf("%+v", state)
	}
	if !receive(t, p.confirms).Ack {
		t.Error("nacked")
	}
}

func TestStart(t *testing.T) {
	for _, cfg := range []broker.Config{
		{},
		{Users: map[string]string{"anna": "se/cret"}, VHosts: []string{"shop/eu"}},
		{Users: map[string]string{"guest": "other", "anna": "secret"}, VHosts: []string{"/", "shop"}},
	} {
		b := broker.Start(t, cfg)
		conn, err := amqp.Dial(b.URL())
		if err != nil {
			t.Fatalf("%s: %v", b.URL(), err)
		}
		conn.Close()
		if _, found := download(t, b.StartManagement(t)+"/api/whoami"); !found {
			t.Errorf("the management API of %s does not answer", b.URL())
		}
	}
}

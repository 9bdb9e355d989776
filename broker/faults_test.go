package broker_test

import (
	"testing"
	"testing/synctest"
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
		"hang up": {broker.HangUp(), 1, func(p *publisher) {
			receive(p.t, p.closed)
			if confirm, told := <-p.confirms; told {
				p.t.Errorf("told %+v", confirm)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := broker.Start(t, broker.Config{})
			p := newPublisher(t, b.URL())
			b.Inject(broker.Fault{Match: func(p broker.Publish) bool { return p.Exchange == "" && p.Mandatory }, Times: 1, Do: c.do})
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

func TestDelayedConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := broker.New(broker.Config{})
		conn, err := dial(b, amqp.Config{Heartbeat: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ch := channel(t, conn)
		if err := ch.Confirm(false); err != nil {
			t.Fatal(err)
		}
		b.Inject(broker.Fault{Do: broker.Delay(20 * time.Second)})
		begin := time.Now()
		pending, err := ch.PublishWithDeferredConfirm("", "q", false, false, amqp.Publishing{})
		if err != nil {
			t.Fatal(err)
		}
		if !pending.Wait() || time.Since(begin) != 20*time.Second {
			t.Errorf("confirmed after %v", time.Since(begin))
		}
		_ = conn.Close()
		b.Close()
	})
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
		if url := b.StartManagement(t); len(download(t, url+"/api/whoami")) == 0 {
			t.Errorf("%s answers nothing", url)
		}
	}
}

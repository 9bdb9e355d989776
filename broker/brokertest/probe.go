package brokertest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	eventTimeout = 20 * time.Second       // for events that must happen
	quietTime    = 150 * time.Millisecond // for events that must not
	pollTime     = 5 * time.Millisecond   // between two looks for an event
)

// probe is a connection to the tested broker, with the steps of a case. A failure ends
// the case.
type probe struct {
	*testing.T
	target  target
	version string // of RabbitMQ, which the broker behaves like
	conn    *amqp.Connection
	ch      *amqp.Channel
}

func newProbe(t *testing.T, target target) *probe {
	conn := target.connect(t, amqp.Config{})
	t.Cleanup(func() { _ = conn.Close() })
	p := &probe{T: t, target: target, conn: conn}
	p.version, _ = conn.Properties["version"].(string)
	p.ch = p.channel()
	return p
}

// newConnection returns a probe with its own connection.
func (p *probe) newConnection() *probe { return newProbe(p.T, p.target) }

func (p *probe) channel() *amqp.Channel {
	p.Helper()
	ch, err := p.conn.Channel()
	p.must(err)
	return ch
}

func (p *probe) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *probe) wantEqual(what string, got, want any) {
	p.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		p.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// name returns a random name.
func (p *probe) name() string {
	return "brokertest." + strings.ToLower(rand.Text()[:12])
}

// queue declares a durable queue, which is deleted with the case.
func (p *probe) queue(args amqp.Table) string { return p.queueNamed(p.name(), args) }

func (p *probe) queueNamed(name string, args amqp.Table) string {
	p.Helper()
	_, err := p.ch.QueueDeclare(name, true, false, false, false, args)
	p.must(err)
	p.deleteQueue(name)
	return name
}

func (p *probe) deleteQueue(name string) {
	p.Cleanup(func() {
		p.cleanUp(func(ch *amqp.Channel) { _, _ = ch.QueueDelete(name, false, false, false) })
	})
}

// exchange declares a durable exchange, which is deleted with the case.
func (p *probe) exchange(kind string, args amqp.Table) string {
	p.Helper()
	name := p.name()
	p.must(p.ch.ExchangeDeclare(name, kind, true, false, false, false, args))
	p.deleteExchange(name)
	return name
}

func (p *probe) deleteExchange(name string) {
	p.Cleanup(func() {
		p.cleanUp(func(ch *amqp.Channel) { _ = ch.ExchangeDelete(name, false, false) })
	})
}

func (p *probe) cleanUp(f func(*amqp.Channel)) {
	conn, err := amqp.DialConfig(p.target.URL, p.target.config(amqp.Config{}))
	if err != nil {
		return
	}
	defer conn.Close()
	if ch, err := conn.Channel(); err == nil {
		f(ch)
	}
}

func (p *probe) bind(queue, key, exchange string, args amqp.Table) {
	p.Helper()
	p.must(p.ch.QueueBind(queue, key, exchange, false, args))
}

func (p *probe) publish(exchange, key string, m amqp.Publishing) {
	p.Helper()
	p.must(p.ch.PublishWithContext(context.Background(), exchange, key, false, false, m))
}

// publishTexts publishes bodies to a queue, and waits until they are ready.
func (p *probe) publishTexts(queue string, bodies ...string) {
	p.Helper()
	for _, body := range bodies {
		p.publishConfirmed("", queue, textMessage(body))
	}
}

// publishConfirmed publishes on a new channel and waits for the confirm. It returns false
// for a nack.
func (p *probe) publishConfirmed(exchange, key string, m amqp.Publishing) bool {
	p.Helper()
	ch := p.channel()
	defer ch.Close()
	p.must(ch.Confirm(false))
	pending, err := ch.PublishWithDeferredConfirm(exchange, key, false, false, m)
	p.must(err)
	ctx, cancel := context.WithTimeout(context.Background(), eventTimeout)
	defer cancel()
	ok, err := pending.WaitContext(ctx)
	p.must(err)
	return ok
}

func textMessage(body string) amqp.Publishing { return amqp.Publishing{Body: []byte(body)} }

// get waits for the next message of a queue and gets it without an acknowledgement.
func (p *probe) get(queue string) amqp.Delivery {
	p.Helper()
	return p.getWith(p.ch, queue, true)
}

func (p *probe) getWith(ch *amqp.Channel, queue string, autoAck bool) amqp.Delivery {
	p.Helper()
	var d amqp.Delivery
	if !eventually(pollTime, func() (ok bool) {
		var err error
		d, ok, err = ch.Get(queue, autoAck)
		p.must(err)
		return ok
	}) {
		p.Fatalf("nothing came to %s", queue)
	}
	return d
}

// bodies gets n messages and returns their bodies.
func (p *probe) bodies(queue string, n int) []string {
	p.Helper()
	all := make([]string, n)
	for i := range all {
		all[i] = string(p.get(queue).Body)
	}
	return all
}

// sortedBodies gets n messages and returns their bodies in alphabetical order.
func (p *probe) sortedBodies(queue string, n int) []string {
	p.Helper()
	all := p.bodies(queue, n)
	slices.Sort(all)
	return all
}

// expectEmpty fails where a queue has messages, at once or shortly after.
func (p *probe) expectEmpty(queue string) {
	p.Helper()
	time.Sleep(quietTime)
	d, ok, err := p.ch.Get(queue, true)
	p.must(err)
	if ok {
		p.Fatalf("%q is in %s, nothing should be", d.Body, queue)
	}
}

// awaitReady waits until a queue has n ready messages.
func (p *probe) awaitReady(queue string, n int) {
	p.Helper()
	got := -1
	if !eventually(pollTime, func() bool {
		q, err := p.ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		p.must(err)
		got = q.Messages
		return got == n
	}) {
		p.Fatalf("%d messages in %s, want %d", got, queue, n)
	}
}

// eventually calls is with pauses until it reports true, which it returns, or no longer may take so long.
func eventually(pause time.Duration, is func() bool) bool {
	for deadline := time.Now().Add(eventTimeout); !is(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

func (p *probe) consume(ch *amqp.Channel, queue string) <-chan amqp.Delivery {
	p.Helper()
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	p.must(err)
	return deliveries
}

func receive[T any](p *probe, from <-chan T) T {
	p.Helper()
	select {
	case value, ok := <-from:
		if !ok {
			p.Fatal("closed; a value was expected")
		}
		return value
	case <-time.After(eventTimeout):
		p.Fatal("nothing came")
	}
	panic("unreachable")
}

func expectNothing[T any](p *probe, from <-chan T) {
	p.Helper()
	select {
	case value, ok := <-from:
		if ok {
			p.Fatalf("%v came, nothing should", value)
		}
	case <-time.After(quietTime):
	}
}

// expectError fails unless the error is an exception with this code and text.
func (p *probe) expectError(err error, code int, text string) {
	p.Helper()
	var exception *amqp.Error
	if !errors.As(err, &exception) {
		p.Fatalf("error is %v, want %d %s", err, code, text)
	}
	p.wantEqual("exception", fmt.Sprint(exception.Code, " ", exception.Reason), fmt.Sprint(code, " ", text))
}

// expectChannelClose fails unless f, which is asynchronous, closes a new channel with this
// code and text.
func (p *probe) expectChannelClose(code int, text string, f func(ch *amqp.Channel)) {
	p.Helper()
	ch := p.channel()
	closed := ch.NotifyClose(make(chan *amqp.Error, 1))
	f(ch)
	p.expectError(receive(p, closed), code, text)
}

// expectConnectionClose is expectChannelClose for a connection.
func (p *probe) expectConnectionClose(code int, text string, f func(conn *amqp.Connection)) {
	p.Helper()
	conn := p.target.connect(p.T, amqp.Config{})
	defer conn.Close()
	closed := conn.NotifyClose(make(chan *amqp.Error, 1))
	f(conn)
	p.expectError(receive(p, closed), code, text)
}

func (p *probe) queueDescription(name string) string {
	return fmt.Sprintf("queue '%s' in %s", name, p.vhostDescription())
}

func (p *probe) exchangeDescription(name string) string {
	return fmt.Sprintf("exchange '%s' in %s", name, p.vhostDescription())
}

func (p *probe) vhostDescription() string { return fmt.Sprintf("vhost '%s'", p.target.uri.Vhost) }

// username returns the login of the URL.
func (p *probe) username() string { return p.target.uri.Username }

// plainResponse returns the response of the SASL mechanism PLAIN.
func (p *probe) plainResponse() string { return "\x00" + p.username() + "\x00" + p.target.uri.Password }

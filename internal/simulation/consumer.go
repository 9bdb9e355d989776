package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// foreignQueue is the queue of a program in another language, which rejects messages and reports on
// them (docs/protocol.md).
const foreignQueue = "foreign"

// reportedDelay is the delay of reports that have one.
const reportedDelay = 3 * time.Second

// consumer is a process of the program that consumes foreignQueue.
type consumer struct {
	world *world
	name  string

	mu    sync.Mutex // guards the fields below
	life  *life
	lives int
}

func newConsumer(w *world, number int) *consumer {
	c := &consumer{world: w, name: fmt.Sprint("consumer", number)}
	c.begin()
	return c
}

func (c *consumer) begin() *life {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lives++
	c.life = &life{name: fmt.Sprintf("%s.%d", c.name, c.lives), world: c.world}
	return c.life
}

func (c *consumer) current() *life {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.life
}

// meet lets the process end as SIGKILL ends it, where the next one starts at once, or lose its connection.
func (c *consumer) meet(f Fault) {
	l := c.current()
	if f.Kind == KillConsumer {
		l.die()
		c.begin()
	}
	for _, s := range c.world.network.of(l.name) {
		s.cut()
	}
}

// run consumes the queue until ctx ends, again after each failure.
func (c *consumer) run(ctx context.Context, offset time.Duration) {
	for ctx.Err() == nil {
		l := c.current()
		if err := c.consume(ctx, l); err != nil && !l.isDead() {
			c.world.note(l.name, err.Error())
		}
		for _, s := range c.world.network.of(l.name) {
			s.cut()
		}
		time.Sleep(time.Second + offset)
	}
}

// consume consumes the queue until ctx ends or the connection fails.
func (c *consumer) consume(ctx context.Context, l *life) error {
	var returned <-chan amqp.Return
	return l.consumeQueue(ctx, foreignQueue, 5, func(channel *amqp.Channel) error {
		returned = channel.NotifyReturn(make(chan amqp.Return, 1))
		if err := channel.Confirm(false); err != nil {
			return err
		}
		return c.world.declareForeignOn(channel)
	}, func(channel *amqp.Channel, d amqp.Delivery) error { return c.handle(l, channel, d, returned) })
}

// handle handles a delivery, and reports its outcome to Watership.
func (c *consumer) handle(l *life, channel *amqp.Channel, d amqp.Delivery, returned <-chan amqp.Return) error {
	id, number := string(d.Body), 1
	switch failed := d.Headers["watership-attempt"].(type) {
	case int32:
		number += int(failed)
	case int64:
		number += int(failed)
	}
	_, known := d.Headers["watership-fingerprint"]
	edit, _ := d.Headers[editHeader].(string)
	call, lives := c.world.oracle.attempt(l, foreignQueue, id, edit, number)
	if !lives {
		return errKilled
	}
	got := call.outcome
	switch {
	case got == succeeds && !known && c.world.oracle.isSilent(id):
		return d.Ack(false)
	case got == fails && c.world.oracle.rejects(id, number):
		return d.Reject(false)
	}
	told := amqp.Table{"outcome": map[outcome]string{succeeds: "handled", fails: "retry", failsForGood: "poison"}[got]}
	if got == fails && number < attempts && c.world.oracle.foreignDelay(id, number) == reportedDelay {
		told["delay"] = reportedDelay.Milliseconds()
	}
	if err := report(channel, d, told, returned); err != nil {
		return fmt.Errorf("its report on %s: %w", id, err)
	}
	return d.Ack(false)
}

// report publishes a copy of a delivery with a report, and returns when the broker has it.
func report(channel *amqp.Channel, d amqp.Delivery, told amqp.Table, returned <-chan amqp.Return) error {
	told["exchange"], told["routing-key"] = d.Exchange, d.RoutingKey
	m := amqp.Publishing{
		ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: d.DeliveryMode, Priority: d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, MessageId: d.MessageId, Timestamp: d.Timestamp, Type: d.Type,
		AppId: d.AppId, Body: d.Body, Headers: maps.Clone(d.Headers),
	}
	if d.Expiration != "" {
		told["expiration"] = d.Expiration
	}
	if deaths, has := m.Headers["x-death"]; has {
		told["x-death"] = deaths
		delete(m.Headers, "x-death")
	}
	m.Headers["watership-report"] = told
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	confirmation, err := channel.PublishWithDeferredConfirmWithContext(ctx, schemas.Topology{}.Report(), foreignQueue, true, false, m)
	if err != nil {
		return err
	}
	confirmed, err := confirmation.WaitContext(ctx)
	if err != nil {
		return err
	}
	select {
	case r := <-returned:
		return fmt.Errorf("returned: %s", r.ReplyText)
	default:
	}
	if !confirmed {
		return errors.New("nack")
	}
	return nil
}

// declareForeign declares the queue of the consumers, as their program does.
func (w *world) declareForeign() error {
	conn, err := amqp.DialConfig(brokerURL, amqp.Config{Dial: func(_, address string) (net.Conn, error) { return w.network.dial("users", address) }})
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	channel, err := conn.Channel()
	if err != nil {
		return err
	}
	return w.declareForeignOn(channel)
}

func (w *world) declareForeignOn(channel *amqp.Channel) error {
	if _, err := channel.QueueDeclare(foreignQueue, true, false, false, false, amqp.Table{"x-queue-type": w.profile.QueueType}); err != nil {
		return err
	}
	return channel.QueueBind(foreignQueue, foreignQueue+".#", exchange, false, nil)
}

// isSilent returns whether a consumer does not report that it has handled a message that never failed.
func (o *oracle) isSilent(id string) bool { return drawn(o.world.seed, id, "silent")%2 == 0 }

// rejects returns whether a consumer rejects a message that fails.
func (o *oracle) rejects(id string, attempt int) bool {
	return drawn(o.world.seed, id, attempt, "rejects")%2 == 0
}

// foreignDelay returns the delay after an attempt that failed.
func (o *oracle) foreignDelay(id string, attempt int) time.Duration {
	if !o.rejects(id, attempt) && drawn(o.world.seed, id, attempt, "delay")%3 == 0 {
		return reportedDelay
	}
	return policy().Delays[attempt-1]
}

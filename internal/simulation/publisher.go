package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

const (
	exchange       = "shop"
	plainQueue     = "plain"
	orderedQueue   = "ordered"
	publisherCount = 3

	firstPublishers = "publisher" // in the names of those that publish during the faults
	keyHeader       = "key"
)

func keyOf(e schemas.Envelope) string {
	key, _ := e.Headers[keyHeader].(string)
	return key
}

// publishAll publishes with several publishers until a time.
func (w *world) publishAll(name string, until time.Time) {
	var running sync.WaitGroup
	for i := range publisherCount {
		running.Go(func() { newPublisher(w, name, i).publish(until) })
	}
	if len(w.consumers) > 0 {
		running.Go(func() {
			p := newPublisher(w, foreignQueue+name, 0)
			p.queue = foreignQueue
			p.publish(until)
		})
	}
	running.Wait()
}

// publisher publishes messages one after the other, each until the broker confirms one. A message
// that is not confirmed may have arrived, so that the next try is another message.
type publisher struct {
	world   *world
	name    string
	key     string // of its messages
	queue   string // of its messages; "": one of Watership's routes
	random  *rand.Rand
	burst   int // messages that follow at once
	offset  time.Duration
	conn    *amqp.Connection
	channel *amqp.Channel
}

func newPublisher(w *world, name string, number int) *publisher {
	name = fmt.Sprint(name, number)
	return &publisher{world: w, name: name, key: fmt.Sprint("key", number), random: randomness(w.seed, name), offset: time.Duration(w.nextOffset())}
}

func (p *publisher) publish(until time.Time) {
	for n := 0; time.Now().Before(until); n++ {
		p.pause(p.nextPause())
		queue := plainQueue
		if p.random.IntN(2) == 0 {
			queue = orderedQueue
		}
		queue = cmp.Or(p.queue, queue)
		for try := 0; time.Now().Before(until); try++ {
			id := fmt.Sprintf("%s-%d-%d", p.name, n, try)
			p.world.oracle.publishes(message{id: id, queue: queue, key: p.key})
			err := p.send(queue, id, p.priority(queue))
			if err == nil {
				p.world.oracle.confirms(id)
				break
			}
			p.world.note(p.name, fmt.Sprintf("%s is not confirmed: %v", id, err))
			p.disconnect()
			p.pause(500 * time.Millisecond)
		}
	}
	p.disconnect()
}

// nextPause returns the pause before the next message. Some messages follow each other at once, so that several of
// a key wait for their handler.
func (p *publisher) nextPause() time.Duration {
	if p.burst == 0 {
		if p.random.IntN(10) == 0 {
			p.burst = 3 + p.random.IntN(13)
		}
		return time.Duration(p.random.IntN(4000)) * time.Millisecond
	}
	p.burst--
	return time.Duration(p.random.IntN(5)) * time.Millisecond
}

func (p *publisher) pause(d time.Duration) { time.Sleep(d.Truncate(time.Microsecond) + p.offset) }

// priority returns the priority of the next message; messages with an order have the same.
func (p *publisher) priority(queue string) uint8 {
	if !p.world.profile.Priorities || queue == orderedQueue {
		return 0
	}
	return uint8(p.random.IntN(10))
}

func (p *publisher) send(queue, id string, priority uint8) error {
	if p.conn == nil {
		if err := p.connect(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	confirmation, err := p.channel.PublishWithDeferredConfirmWithContext(ctx, exchange, queue+".created", false, false, amqp.Publishing{
		DeliveryMode: amqp.Persistent, MessageId: id, Priority: priority, Body: []byte(id), Headers: amqp.Table{keyHeader: p.key},
	})
	if err != nil {
		return err
	}
	confirmed, err := confirmation.WaitContext(ctx)
	if err == nil && !confirmed {
		err = errors.New("nack")
	}
	return err
}

func (p *publisher) connect() (err error) {
	p.conn, err = amqp.DialConfig(brokerURL, amqp.Config{
		Heartbeat: 10 * time.Second, Dial: func(_, address string) (net.Conn, error) { return p.world.network.dial(p.name, address) },
	})
	if err != nil {
		p.conn = nil
		return err
	}
	if p.channel, err = p.conn.Channel(); err != nil {
		return err
	}
	return p.channel.Confirm(false)
}

func (p *publisher) disconnect() {
	if p.conn != nil {
		for _, s := range p.world.network.of(p.name) {
			s.cut()
		}
		_ = p.conn.Close()
		p.conn = nil
	}
}

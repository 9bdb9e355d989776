package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// crash ends a process of the model.
type crash struct{}

var errUnconfirmed = errors.New("the connection was lost before the confirm")

// modelBroker is a broker in memory with a clock of its own. Any of its
// operations may fail, or take the process with it, before or after it took effect.
type modelBroker struct {
	random   *rand.Rand
	topology schemas.Topology
	now      time.Time

	queues  map[string][]amqp.Delivery // ready
	full    map[string]bool
	bound   map[string]bool // to the return exchange
	waiting []waiting
	log     []amqp.Delivery
	ends    map[string]int // events in the log, by action and body

	faulty bool   // whether faults happen
	faults int    // that hit the message in hand
	check  func() // after every operation
}

// waiting is a message in a delay queue.
type waiting struct {
	amqp.Delivery
	queue string
	due   time.Time
}

func (b *modelBroker) declare(queues ...string) {
	for _, queue := range queues {
		if _, there := b.queues[queue]; !there {
			b.queues[queue] = []amqp.Delivery{}
		}
	}
}

// operation does something durable, unless the process dies or errs before, and
// after it the same.
func (b *modelBroker) operation(do func() error) error {
	if err := b.fault(); err != nil {
		return err
	}
	err := do()
	b.check()
	if err != nil {
		return err
	}
	return b.fault()
}

func (b *modelBroker) fault() error {
	if !b.faulty || b.random.IntN(12) > 0 {
		return nil
	}
	b.faults++
	if b.random.IntN(2) == 0 {
		panic(crash{})
	}
	return errUnconfirmed
}

// PublishAll is Publish for each.
func (b *modelBroker) PublishAll(ctx context.Context, messages []rabbit.Message) []error {
	errs := make([]error, len(messages))
	for i, m := range messages {
		errs[i] = b.Publish(ctx, m)
	}
	return errs
}

// Publish is mandatory and confirmed.
func (b *modelBroker) Publish(_ context.Context, m rabbit.Message) error {
	return b.operation(func() error {
		d := deliveryOf(m)
		switch m.Exchange {
		case b.topology.Events():
			b.log = append(b.log, d)
			b.ends[d.RoutingKey+string(d.Body)]++
			return nil
		case b.topology.Return():
			queue, _ := m.Publishing.Headers["watership-queue"].(string)
			if !b.bound[queue] {
				return &rabbit.UnroutableError{Exchange: m.Exchange, RoutingKey: m.RoutingKey}
			}
			return b.put(queue, d)
		case b.topology.Report():
			return b.put(b.topology.Report(), d)
		}
		return b.put(m.RoutingKey, d)
	})
}

func (b *modelBroker) put(queue string, d amqp.Delivery) error {
	if _, there := b.queues[queue]; !there {
		return &rabbit.UnroutableError{RoutingKey: queue, Reason: "NO_ROUTE"}
	}
	if b.full[queue] {
		return &rabbit.NackedError{RoutingKey: queue}
	}
	if ms, isDelay := b.delayOf(queue); isDelay {
		b.waiting = append(b.waiting, waiting{d, queue, b.now.Add(ms)})
		return nil
	}
	b.queues[queue] = append(b.queues[queue], d)
	return nil
}

func (b *modelBroker) delayOf(queue string) (time.Duration, bool) {
	var ms int64
	_, err := fmt.Sscanf(queue, wire.DelaysOf(b.topology).Queue(0)[:len(wire.DelaysOf(b.topology).Queue(0))-1]+"%d", &ms)
	return time.Duration(ms) * time.Millisecond, err == nil
}

func (b *modelBroker) DeclareDelay(_ context.Context, d time.Duration) error {
	return b.operation(func() error { b.declare(wire.DelaysOf(b.topology).Queue(d)); return nil })
}

func (b *modelBroker) EnsureReturns(context.Context, string, string) error { return nil }

func (b *modelBroker) BindReturn(_ context.Context, queue string) error {
	return b.operation(func() error {
		if _, there := b.queues[queue]; !there {
			return &rabbit.RefusedError{Code: amqp.NotFound, Reason: "no queue"}
		}
		b.bound[queue] = true
		return nil
	})
}

// BindDirect has nothing to do: the queue of the route keeps its binding.
func (b *modelBroker) BindDirect(ctx context.Context, queue string) error {
	return b.BindReturn(ctx, queue)
}

// delete deletes a queue that is empty, and its binding with it.
func (b *modelBroker) delete(queue string) {
	if len(b.queues[queue]) == 0 {
		delete(b.queues, queue)
		delete(b.bound, queue)
	}
}

// take hands out any message of a queue.
func (b *modelBroker) take(queue string) amqp.Delivery {
	i := b.random.IntN(len(b.queues[queue]))
	d := b.queues[queue][i]
	b.queues[queue] = slices.Delete(b.queues[queue], i, i+1)
	return d
}

// pass lets the time pass until the next message is due.
func (b *modelBroker) pass() {
	next := slices.MinFunc(b.waiting, func(x, y waiting) int { return x.due.Compare(y.due) })
	b.now = next.due
	b.waiting = slices.DeleteFunc(b.waiting, func(w waiting) bool {
		if w.due.After(b.now) {
			return false
		}
		b.queues[b.topology.Due()] = append(b.queues[b.topology.Due()], dead(w.Delivery, w.queue, "expired", b.topology.Direct(), b.topology.Due()))
		return true
	})
}

// dead is a message with the death that the broker adds, by the dead-letter exchange.
func dead(d amqp.Delivery, queue, reason, exchange, key string) amqp.Delivery {
	headers := amqp.Table{}
	for name, value := range d.Headers {
		headers[name] = value
	}
	deaths, _ := headers["x-death"].([]any)
	headers["x-death"] = append([]any{amqp.Table{
		"queue": queue, "reason": reason, "exchange": d.Exchange, "routing-keys": []any{d.RoutingKey}, "count": int64(1),
	}}, deaths...)
	d.Headers, d.Exchange, d.RoutingKey = headers, exchange, key
	return d
}

func deliveryOf(m rabbit.Message) amqp.Delivery {
	p := m.Publishing
	return amqp.Delivery{
		Exchange: m.Exchange, RoutingKey: m.RoutingKey, Headers: p.Headers, Body: p.Body, MessageId: p.MessageId,
		DeliveryMode: p.DeliveryMode, CorrelationId: p.CorrelationId, Expiration: p.Expiration,
	}
}

package simulation

import (
	"context"
	"net/http"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/subscription"
)

// The targets of subscriptions, which have their names: a queue with a slow consumer, and a host that
// refuses events, too.
const (
	slowQueue      = "billing"
	refusingTarget = "receiver"
	refusingHost   = "receiver:80"
	refusingURL    = "http://" + refusingHost + "/events"
)

// receiver is the target of a subscription.
type receiver struct {
	world *world
	name  string

	mu       sync.Mutex // guards the fields below
	accepted []acceptance
	calls    map[string]int // by position
}

// acceptance is an event that a receiver has accepted.
type acceptance struct {
	position eventstore.Cursor
	at       time.Time
	again    bool // the broker delivers it again
}

func newReceiver(w *world, name string) *receiver {
	return &receiver{world: w, name: name, calls: map[string]int{}}
}

func (r *receiver) accept(position string, again bool) {
	r.world.note(r.name, "accepts "+position)
	at, err := subscription.ParsePosition(position)
	if err != nil {
		r.world.fail("%s: %v", r.name, err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.accepted = append(r.accepted, acceptance{at, time.Now(), again})
}

// ServeHTTP implements http.Handler: it refuses some events, some of them several times.
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	position := request.Header.Get("Watership-Subscription-Position")
	r.mu.Lock()
	r.calls[position]++
	call := r.calls[position]
	r.mu.Unlock()
	x := drawn(r.world.seed, position, call)
	time.Sleep(time.Duration(x%200)*time.Millisecond + time.Duration(x%100_003)*time.Nanosecond)
	switch kind := x / 7 % 100; {
	case kind < 5:
		w.WriteHeader(http.StatusServiceUnavailable)
	case kind < 8 && call < 4:
		w.WriteHeader(http.StatusInternalServerError)
	case kind < 9 && call < 4: // longer than a request may take
		select {
		case <-request.Context().Done():
		case <-time.After(time.Minute):
		}
	default:
		r.accept(position, false)
	}
}

// consume consumes the queue of the receiver until ctx ends, again after each failure.
func (r *receiver) consume(ctx context.Context, offset time.Duration) {
	l := &life{name: r.name, world: r.world}
	for ctx.Err() == nil {
		if err := r.deliveries(ctx, l); err != nil {
			r.world.note(r.name, err.Error())
		}
		time.Sleep(time.Second + offset)
	}
}

func (r *receiver) deliveries(ctx context.Context, l *life) error {
	return l.consumeQueue(ctx, r.name, 3, func(channel *amqp.Channel) error {
		_, err := channel.QueueDeclare(r.name, true, false, false, false, amqp.Table{"x-queue-type": r.world.profile.QueueType})
		return err
	}, func(_ *amqp.Channel, d amqp.Delivery) error {
		position, _ := d.Headers[subscription.PositionHeader].(string)
		x := drawn(r.world.seed, position)
		time.Sleep(time.Duration(x%300)*time.Millisecond + time.Duration(x%100_003)*time.Nanosecond)
		r.accept(position, d.Redelivered)
		return d.Ack(false)
	})
}

// received returns the number of events that the receiver has accepted, without some.
func (r *receiver) received(without map[string]bool) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := map[string]bool{}
	for _, a := range r.accepted {
		if !without[a.position.EventID] {
			events[a.position.EventID] = true
		}
	}
	return len(events)
}

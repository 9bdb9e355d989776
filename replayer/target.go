package replayer

import (
	"errors"
	"fmt"
	"maps"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// Kind is the kind of a target.
type Kind string

// The targets are the original exchange and routing key, the queue that failed, a
// named queue, or another exchange.
const (
	ToOrigin      Kind = "origin"
	ToFailedQueue Kind = "failed_queue"
	ToQueue       Kind = "queue"
	ToExchange    Kind = "exchange"
)

// Target is the destination of the messages. The zero value is invalid.
type Target struct {
	Kind     Kind   `json:"kind"`
	Queue    string `json:"queue,omitempty"`    // of ToQueue
	Exchange string `json:"exchange,omitempty"` // of ToExchange

	// Key is the routing key of ToExchange. Nil: each message keeps its own.
	Key *string `json:"key,omitempty"`
}

func (t Target) String() string {
	switch t.Kind {
	case ToFailedQueue:
		return "the queue that failed"
	case ToQueue:
		return "queue " + t.Queue
	case ToExchange:
		if t.Key == nil {
			return fmt.Sprintf("exchange %q", t.Exchange)
		}
		return fmt.Sprintf("exchange %q, routing key %q", t.Exchange, *t.Key)
	}
	return "where they came from"
}

// check refuses Watership's own exchanges and queues: their consumers would read the
// messages as events or states.
func (t Target) check(own func(name string) bool) error {
	switch {
	case t.Kind == "":
		return errors.New("planning a replay: the job has no target")
	case t.Kind == ToQueue && own(t.Queue), t.Kind == ToExchange && own(t.Exchange):
		return fmt.Errorf("%s is one of Watership's own: expected one of your system", t)
	}
	return nil
}

// Equal reports whether two targets have the same destinations.
func (t Target) Equal(other Target) bool { return t.Kind == other.Kind && t.String() == other.String() }

// scope distinguishes the copies of a message at several destinations; "" if the
// message counts once.
func (t Target) scope(e eventstore.EventSummary) string {
	switch t.Kind {
	case ToFailedQueue:
		return e.Queue
	case ToQueue, ToExchange:
		return t.String()
	}
	return ""
}

// queue returns the single queue to which the message of an event is sent; "" for an
// exchange.
func (t Target) queue(e schemas.Event) string {
	switch t.Kind {
	case ToFailedQueue:
		return e.Queue
	case ToQueue:
		return t.Queue
	}
	return ""
}

// address returns the envelope with the exchange and routing key of the target. It
// removes CC for another exchange: the publisher may have no permission for those
// routes.
func (t Target) address(e schemas.Envelope) schemas.Envelope {
	if t.Kind != ToExchange {
		return e
	}
	if e.Exchange != t.Exchange {
		e.Headers = maps.Clone(e.Headers)
		delete(e.Headers, "CC")
	}
	e.Exchange = t.Exchange
	if t.Key != nil {
		e.RoutingKey = *t.Key
	}
	return e
}

// route returns the route of the message of an event, and routeOf the one of the message
// that is sent for it.
func (t Target) route(e schemas.Event) Route { return t.routeOf(e, t.address(e.Envelope)) }

func (t Target) routeOf(e schemas.Event, sent schemas.Envelope) Route {
	if queue := t.queue(e); queue != "" {
		return Route{Queue: queue}
	}
	return Route{Exchange: sent.Exchange, RoutingKey: sent.RoutingKey}
}

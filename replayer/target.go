package replayer

import (
	"errors"
	"fmt"
	"maps"

	"github.com/watershipmq/watership/schemas"
)

// Kind says what sort of place messages are sent to.
type Kind string

// Messages go to the exchange and routing key they were first published to, to
// the queue that failed alone, to one queue, or to another exchange.
const (
	ToOrigin      Kind = "origin"
	ToFailedQueue Kind = "failed_queue"
	ToQueue       Kind = "queue"
	ToExchange    Kind = "exchange"
)

// Target says where messages are sent. The zero value is no target.
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

// check refuses our own exchanges and queues: what comes to them is not taken for a
// message, but for the record or the state of one.
func (t Target) check(own func(name string) bool) error {
	switch {
	case t.Kind == "":
		return errors.New("planning a replay: the job has no target")
	case t.Kind == ToQueue && own(t.Queue), t.Kind == ToExchange && own(t.Exchange):
		return fmt.Errorf("%s is one of Watership's own: expected one of your system", t)
	}
	return nil
}

// Equal says whether messages go to the same places.
func (t Target) Equal(other Target) bool { return t.Kind == other.Kind && t.String() == other.String() }

// scope is the place to which the message of an event goes, as far as it is a
// message of its own there.
func (t Target) scope(e schemas.Fact) string {
	switch t.Kind {
	case ToFailedQueue:
		return e.Queue
	case ToQueue, ToExchange:
		return t.String()
	}
	return ""
}

// queue is the single queue to which the message of an event goes, "" if it
// goes to an exchange.
func (t Target) queue(e schemas.Event) string {
	switch t.Kind {
	case ToFailedQueue:
		return e.Queue
	case ToQueue:
		return t.Queue
	}
	return ""
}

// address is the envelope with the exchange and routing key it is sent to. To another
// exchange it goes without CC: its publisher may have no right there.
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

func (t Target) route(e schemas.Event) Route {
	if queue := t.queue(e); queue != "" {
		return Route{Queue: queue}
	}
	sent := t.address(e.Envelope)
	return Route{Exchange: sent.Exchange, RoutingKey: sent.RoutingKey}
}

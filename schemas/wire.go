package schemas

import (
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// NewerVersionError says that a message carries headers of a newer Watership.
// It must be kept as it is.
type NewerVersionError struct {
	Version int
}

func (e *NewerVersionError) Error() string {
	return fmt.Sprintf("the message carries %s %d, this Watership knows up to %d: "+
		"upgrade this one, or stop the newer one", headerVersion, e.Version, WireVersion)
}

// Wrap makes what travels between our own queues: the envelope, whose exchange
// and routing key are the origin, with its state in headers. The five
// properties that cannot travel as they are become headers too, and our copies
// are persistent.
func Wrap(e Envelope, s State) amqp.Publishing {
	p := e.Publishing()
	headers := ours(withoutState(e.Headers))
	headers.setText(headerExpiration, p.Expiration)
	headers.setText(headerUserID, p.UserId)
	headers.setInt(headerPriority, int64(p.Priority))
	headers.setInt(headerDeliveryMode, int64(p.DeliveryMode))
	if cc, present := headers[headerCC]; present {
		headers[headerCarbonCopy] = cc
		delete(headers, headerCC)
	}
	headers[headerExchange] = e.Exchange
	headers[headerRoutingKey] = e.RoutingKey
	s.write(headers)
	p.Headers = amqp.Table(headers)
	p.Expiration, p.UserId, p.Priority, p.DeliveryMode = "", "", 0, amqp.Persistent
	return p
}

// WrapWithoutBody is Wrap for an event whose body is kept elsewhere; the size
// of the body is said instead.
func WrapWithoutBody(e Envelope, s State) amqp.Publishing {
	p := Wrap(e, s)
	p.Headers[headerBodySize] = int64(len(e.Body))
	p.Body = nil
	return p
}

// WrapForQueue is Wrap for the last hop, to the single queue s.Queue: the
// properties are as first published again. user_id is restored only where it
// is login, since RabbitMQ refuses another's; CC is not, since it would reach
// other queues.
func WrapForQueue(e Envelope, s State, login string) amqp.Publishing {
	p := Wrap(e, s)
	p.Expiration = e.Properties.Expiration
	p.Priority = e.Properties.Priority
	p.DeliveryMode = e.Properties.DeliveryMode
	if e.Properties.UserID == login {
		p.UserId = login
	}
	return p
}

// WrapForExchange makes a replay to the exchange and routing key of e: the
// message as first published, marked with fingerprint and replay alone. It
// begins anew, without attempts and without an instance id.
func WrapForExchange(e Envelope, s State, login string) amqp.Publishing {
	p := e.Publishing()
	headers := ours(withoutState(e.Headers))
	State{Fingerprint: s.Fingerprint, Replay: s.Replay, ReplayOf: s.ReplayOf}.write(headers)
	p.Headers = amqp.Table(headers)
	if e.Properties.UserID != login {
		p.UserId = ""
		headers.setText(headerUserID, e.Properties.UserID)
	}
	return p
}

// Unwrap is the inverse of Wrap, for what came from our own queues. A message
// without our headers has a zero state and the exchange and routing key it
// arrived with. It fails only with a NewerVersionError.
func Unwrap(arrived Envelope) (Envelope, State, error) {
	headers := ours(arrived.Headers)
	state := readState(headers)
	if state.Version > WireVersion {
		return Envelope{}, State{}, &NewerVersionError{state.Version}
	}
	e := arrived
	if exchange, wrapped := headers[headerExchange].(string); wrapped {
		e.Exchange, e.RoutingKey = exchange, headers.text(headerRoutingKey)
		e.Properties.Expiration = headers.text(headerExpiration)
		e.Properties.Priority = uint8(headers.int(headerPriority))
		e.Properties.DeliveryMode = uint8(headers.int(headerDeliveryMode))
		e.Properties.UserID = headers.text(headerUserID)
	} else if user := headers.text(headerUserID); user != "" {
		e.Properties.UserID = user
	}
	e.Headers = withoutState(arrived.Headers)
	if cc, present := headers[headerCarbonCopy]; present {
		e.Headers[headerCC] = cc
	}
	return e, state, nil
}

// withoutState copies a header table without what is ours and what is the broker's.
func withoutState(table amqp.Table) amqp.Table {
	return withoutDeath(withoutOurs(table))
}

func withoutOurs(table amqp.Table) amqp.Table {
	kept := make(amqp.Table, len(table)+roomForState)
	for name, value := range table {
		if !strings.HasPrefix(name, headerPrefix) {
			kept[name] = value
		}
	}
	return kept
}

// roomForState saves a header table from growing when our headers are added.
const roomForState = 16

package rabbit

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

var (
	// ErrClosed is returned by a connection or publisher after its Close.
	ErrClosed = errors.New("rabbit: closed")

	// ErrNoConnection means that there was no connection when the time for it had passed.
	ErrNoConnection = errors.New("no connection to the broker")

	// ErrSessionEnded means that an acknowledgement was dropped because the channel of
	// the delivery is closed. The broker delivers the message again.
	ErrSessionEnded = errors.New("rabbit: the session that delivered the message has ended")
)

// UnroutableError means that the broker returned a mandatory message because it
// matched no queue. The message is stored nowhere.
type UnroutableError struct {
	Exchange   string // "" is the default exchange, whose routing key is the queue's name
	RoutingKey string
	Code       int    // AMQP reply code, 312 NO_ROUTE
	Reason     string // reply text of the broker
}

func (e *UnroutableError) Error() string {
	if e.Exchange == "" {
		return fmt.Sprintf("queue %q does not exist (%s)", e.RoutingKey, e.Reason)
	}
	return fmt.Sprintf("no queue is bound to exchange %q for routing key %q (%s)", e.Exchange, e.RoutingKey, e.Reason)
}

// NackedError means that the broker sent basic.nack for the message, most often
// because a queue is full and has x-overflow: reject-publish.
type NackedError struct {
	Exchange   string
	RoutingKey string
}

func (e *NackedError) Error() string {
	return fmt.Sprintf("exchange %q, routing key %q: a queue refused the message, as a full one does", e.Exchange, e.RoutingKey)
}

// RefusedError means that this message cannot be published unchanged: the broker
// closed the channel because of it, or would have closed the connection.
type RefusedError struct {
	Exchange   string
	RoutingKey string
	Code       int    // AMQP reply code, such as 404 NOT_FOUND, 406 PRECONDITION_FAILED, 501 FRAME_ERROR
	Reason     string // reply text of the broker, or the local check's reason if it was not sent
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("exchange %q, routing key %q: message refused: %s (%d)", e.Exchange, e.RoutingKey, e.Reason, e.Code)
}

// CausedByMessage reports whether the broker refuses this message from every
// publisher. False for errors about permissions or the exchange.
func (e *RefusedError) CausedByMessage() bool {
	switch e.Code {
	case amqp.AccessRefused, amqp.NotFound, amqp.ResourceLocked, amqp.NotAllowed:
		return false
	}
	return true
}

// IsMissing reports whether the broker answered that an exchange or a queue does not exist.
func IsMissing(err error) bool {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return saysMissing(refused.Code, refused.Reason)
	}
	var broker *amqp.Error
	return errors.As(err, &broker) && broker != nil && broker.Server && saysMissing(broker.Code, broker.Reason)
}

// saysMissing reports whether a reply says that something does not exist. RabbitMQ also has code 404 for a
// classic queue that exists, and whose node is down.
func saysMissing(code int, text string) bool {
	what := strings.TrimPrefix(text, "NOT_FOUND - ")
	return code == amqp.NotFound && !slices.ContainsFunc([]string{"home node '", "queue '", "failed to perform operation on "},
		func(away string) bool { return strings.HasPrefix(what, away) })
}

// withoutURL removes the URL that errors of net/url quote; it holds a password.
func withoutURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return parse.Err
	}
	return err
}

// reply returns the AMQP error sent by the broker, if err contains one.
func reply(err error) (*amqp.Error, bool) {
	var broker *amqp.Error
	if errors.As(err, &broker) && broker != nil && broker.Server {
		return broker, true
	}
	return nil, false
}

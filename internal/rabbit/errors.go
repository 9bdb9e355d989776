package rabbit

import (
	"errors"
	"fmt"
	"net/url"

	amqp "github.com/rabbitmq/amqp091-go"
)

var (
	// ErrClosed is what a connection or publisher answers after its Close.
	ErrClosed = errors.New("rabbit: closed")

	// ErrSessionEnded says that an acknowledgement was dropped because the channel
	// that delivered the message is gone. The broker delivers the message again.
	ErrSessionEnded = errors.New("rabbit: the session that delivered the message has ended")
)

// UnroutableError says that a mandatory message reached no queue: the broker
// gave it back, so nobody has it but the caller.
type UnroutableError struct {
	Exchange   string // "" is the default exchange, whose routing key is the queue's name
	RoutingKey string
	Code       int    // AMQP reply code, 312 NO_ROUTE
	Reason     string // the broker's words
}

func (e *UnroutableError) Error() string {
	if e.Exchange == "" {
		return fmt.Sprintf("queue %q does not exist (%s)", e.RoutingKey, e.Reason)
	}
	return fmt.Sprintf("no queue is bound to exchange %q for routing key %q (%s)", e.Exchange, e.RoutingKey, e.Reason)
}

// NackedError says that a queue did not take the message, most often because it
// is full and rejects what is published (x-overflow: reject-publish).
type NackedError struct {
	Exchange   string
	RoutingKey string
}

func (e *NackedError) Error() string {
	return fmt.Sprintf("exchange %q, routing key %q: a queue refused the message, as a full one does", e.Exchange, e.RoutingKey)
}

// RefusedError says that this message can never be published as it is: the
// broker closed the channel because of it, or would have closed the connection.
type RefusedError struct {
	Exchange   string
	RoutingKey string
	Code       int    // AMQP reply code, such as 404 NOT_FOUND, 406 PRECONDITION_FAILED, 501 FRAME_ERROR
	Reason     string // the broker's words, or ours where it was not even sent
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("exchange %q, routing key %q: message refused: %s (%d)", e.Exchange, e.RoutingKey, e.Reason, e.Code)
}

// CondemnsMessage says whether the broker refuses this message whoever sends it. A
// right that is missing, or an exchange, is not the message's fault.
func (e *RefusedError) CondemnsMessage() bool {
	switch e.Code {
	case amqp.AccessRefused, amqp.NotFound, amqp.ResourceLocked, amqp.NotAllowed:
		return false
	}
	return true
}

// withoutURL drops the URL that net/url's errors quote; it holds a password.
func withoutURL(err error) error {
	var parse *url.Error
	if errors.As(err, &parse) {
		return parse.Err
	}
	return err
}

// reply is the broker's own reason, if it gave one.
func reply(err error) (*amqp.Error, bool) {
	var broker *amqp.Error
	if errors.As(err, &broker) && broker != nil && broker.Server {
		return broker, true
	}
	return nil, false
}

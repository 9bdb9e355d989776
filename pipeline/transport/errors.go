package transport

import (
	"errors"

	"github.com/watershipmq/watership/internal/rabbit"
)

// UnroutableError is returned for a mandatory message that reached no queue.
type UnroutableError struct {
	Exchange   string // "" is the default exchange, whose routing key is the queue's name
	RoutingKey string
	Code       int    // AMQP reply code, 312 NO_ROUTE
	Reason     string // reply text of the broker
}

func (e *UnroutableError) Error() string { return (*rabbit.UnroutableError)(e).Error() }

// NackedError is returned for a message that the broker nacked, as for a full queue with
// x-overflow: reject-publish.
type NackedError struct {
	Exchange   string
	RoutingKey string
}

func (e *NackedError) Error() string { return (*rabbit.NackedError)(e).Error() }

// RefusedError is returned for a message that the broker refuses with its exchange or
// properties.
type RefusedError struct {
	Exchange   string
	RoutingKey string
	Code       int    // AMQP reply code, such as 404 NOT_FOUND, 406 PRECONDITION_FAILED, 501 FRAME_ERROR
	Reason     string // reply text of the broker, or the local check's reason if it was not sent
}

func (e *RefusedError) Error() string { return (*rabbit.RefusedError)(e).Error() }

// public returns an error of a single message with a type that other modules can name.
func public(err error) error {
	var unroutable *rabbit.UnroutableError
	var nacked *rabbit.NackedError
	var refused *rabbit.RefusedError
	switch {
	case errors.As(err, &unroutable):
		return (*UnroutableError)(unroutable)
	case errors.As(err, &nacked):
		return (*NackedError)(nacked)
	case errors.As(err, &refused):
		return (*RefusedError)(refused)
	}
	return err
}

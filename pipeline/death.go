package pipeline

import (
	"fmt"
	"slices"

	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/retry"
)

// Reasons for which RabbitMQ dead-letters a message (https://www.rabbitmq.com/docs/dlx).
const (
	deathRejected      = "rejected"
	deathExpired       = "expired"
	deathMaxLength     = "maxlen"
	deathDeliveryLimit = "delivery_limit"
)

func deathReasons() []string {
	return []string{deathRejected, deathExpired, deathMaxLength, deathDeliveryLimit}
}

// DeathError is the failure of a consumer whose message was dead-lettered.
type DeathError struct {
	Queue  string
	Reason string // RabbitMQ's: rejected, expired, maxlen or delivery_limit
}

func (e *DeathError) Error() string {
	switch e.Reason {
	case deathRejected:
		return fmt.Sprintf("rejected by a consumer of queue %q", e.Queue)
	case deathExpired:
		return fmt.Sprintf("expired in queue %q", e.Queue)
	case deathMaxLength:
		return fmt.Sprintf("pushed out of queue %q, which was full", e.Queue)
	case deathDeliveryLimit:
		return fmt.Sprintf("delivered too often from queue %q without being acknowledged, as by a consumer that crashes", e.Queue)
	}
	return fmt.Sprintf("dead-lettered from queue %q: %s", e.Queue, e.Reason)
}

// deathError returns a permanent error, unless the reason is one that is retried.
func deathError(death header.Death, retried []string) error {
	err := &DeathError{Queue: death.Queue, Reason: death.Reason}
	if slices.Contains(retried, death.Reason) {
		return err
	}
	return retry.Permanent(err)
}

// DeliveriesError is the failure of a message that was delivered too often without an
// outcome, as when its handler ends the process.
type DeliveriesError struct {
	Queue      string
	Deliveries int
}

func (e *DeliveriesError) Error() string {
	return fmt.Sprintf("delivered %d times from queue %q without an outcome, as by a handler that ends its process", e.Deliveries, e.Queue)
}

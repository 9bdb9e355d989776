package shop

import (
	"encoding/json"
	"fmt"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// PaymentClass is the class of errors during an outage of the payment provider.
const PaymentClass = "payment"

const (
	orderingClass = "ordering" // the class of errors about messages that come too early
	maxRemembered = 10_000     // orders
)

// refusal is an error of a service. Failures are grouped by the name of its type.
type refusal string

func (r refusal) Error() string { return string(r) }

// bill takes the payment of an order.
func (s *Shop) bill(msg *message.Message) ([]*message.Message, error) {
	o, err := readOrder(msg)
	if err != nil {
		return nil, err
	}
	s.remember(o.Number)
	if o.Customer == "" {
		return nil, retry.Permanent(refusal(fmt.Sprintf("order %d has no customer", o.Number)))
	}
	if s.isOutage() {
		return nil, retry.Class(PaymentClass, refusal("the payment provider answered 503 Service Unavailable"))
	}
	return nextMessage(msg, Payments, paymentTaken, fmt.Sprintf("payment-%d", o.Number), o), nil
}

// change changes an order, which must be placed before.
func (s *Shop) change(msg *message.Message) ([]*message.Message, error) {
	o, err := readOrder(msg)
	if err != nil {
		return nil, err
	}
	if !s.isPlaced(o.Number) {
		return nil, retry.Class(orderingClass, refusal(fmt.Sprintf("order %d is not there yet", o.Number)))
	}
	return nil, nil
}

// pack makes a shipment of a paid order.
func (s *Shop) pack(msg *message.Message) ([]*message.Message, error) {
	o, err := readOrder(msg)
	if err != nil {
		return nil, err
	}
	return nextMessage(msg, Shipments, "", fmt.Sprintf("shipment-%d", o.Number), o), nil
}

// ship delivers a shipment, or sends its mail to the customer.
func (s *Shop) ship(msg *message.Message) ([]*message.Message, error) {
	_, err := readOrder(msg)
	return nil, err
}

func readOrder(msg *message.Message) (order, error) {
	var o order
	if err := json.Unmarshal(msg.Payload, &o); err != nil {
		return o, retry.Permanent(fmt.Errorf("reading an order: %w", err))
	}
	return o, nil
}

// nextMessage returns the message to the next service, for the same tenant.
func nextMessage(msg *message.Message, exchange, key, id string, o order) []*message.Message {
	tenant := ""
	if e, ok := schemas.FromContext(msg.Context()); ok {
		tenant, _ = e.Headers["tenant"].(string)
	}
	return []*message.Message{pipeline.NewMessage(envelope(exchange, key, id, o, tenant))}
}

func (s *Shop) remember(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.placed[n] = true
	delete(s.placed, n-maxRemembered)
}

func (s *Shop) isPlaced(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.placed[n]
}

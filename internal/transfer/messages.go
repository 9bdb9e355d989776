package transfer

import (
	"fmt"
	"io"
	"iter"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/indent"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// NewMessage returns the message of an envelope. It is persistent, and has a content
// type if its body is JSON.
func NewMessage(e schemas.Envelope) rabbit.Message {
	e.Properties.DeliveryMode = amqp091.Persistent
	if e.Properties.ContentType == "" && indent.IsJSON(e.Body) {
		e.Properties.ContentType = "application/json"
	}
	return rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()}
}

// Messages yields the messages of an export for a publisher with a login. It omits any
// other user id, which the broker would refuse. Exchange and key, unless nil, replace
// the exchange and the routing key of each message.
func Messages(in io.Reader, login string, exchange, key *string) iter.Seq2[rabbit.Message, error] {
	return func(yield func(rabbit.Message, error) bool) {
		for event, err := range Read(in) {
			if err == nil && event.BodyIn != schemas.BodyHere {
				err = fmt.Errorf("event %s was recorded without its body: export the published or poisoned event", event.EventID)
			}
			if err != nil {
				yield(rabbit.Message{}, err)
				return
			}
			e := event.Envelope
			if e.Properties.UserID != login {
				e.Properties.UserID = ""
			}
			if exchange != nil {
				e.Exchange = *exchange
			}
			if key != nil {
				e.RoutingKey = *key
			}
			if !yield(rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()}, nil) {
				return
			}
		}
	}
}

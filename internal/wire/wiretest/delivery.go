package wiretest

import (
	"maps"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// Delivery returns an envelope as a consumer receives it.
func Delivery(e schemas.Envelope) amqp.Delivery {
	p := e.Publishing()
	return amqp.Delivery{
		Exchange: e.Exchange, RoutingKey: e.RoutingKey, Headers: p.Headers, Body: p.Body,
		ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, DeliveryMode: p.DeliveryMode,
		Priority: p.Priority, CorrelationId: p.CorrelationId, ReplyTo: p.ReplyTo, Expiration: p.Expiration,
		MessageId: p.MessageId, Timestamp: p.Timestamp, Type: p.Type, UserId: p.UserId, AppId: p.AppId,
	}
}

// Arriving returns a publishing as its consumer receives it.
func Arriving(p amqp.Publishing, exchange, key string) schemas.Envelope {
	return schemas.FromDelivery(amqp.Delivery{
		Exchange: exchange, RoutingKey: key, Headers: p.Headers, Body: p.Body,
		ContentType: p.ContentType, ContentEncoding: p.ContentEncoding, DeliveryMode: p.DeliveryMode,
		Priority: p.Priority, CorrelationId: p.CorrelationId, ReplyTo: p.ReplyTo, Expiration: p.Expiration,
		MessageId: p.MessageId, Timestamp: p.Timestamp, Type: p.Type, UserId: p.UserId, AppId: p.AppId,
	})
}

func With(e schemas.Envelope, headers amqp.Table) schemas.Envelope {
	e.Headers = maps.Clone(e.Headers)
	maps.Copy(e.Headers, headers)
	return e
}

func Death(queue, reason, exchange, key string) amqp.Table {
	return amqp.Table{
		"queue": queue, "reason": reason, "exchange": exchange, "routing-keys": []any{key, "cc"}, "count": int64(1),
	}
}

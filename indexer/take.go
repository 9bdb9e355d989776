package indexer

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// take makes an event of a delivery. It never fails: what cannot be read is
// quarantined.
type take func(amqp.Delivery) schemas.Event

func (x *Indexer) takeTapped(d amqp.Delivery) schemas.Event {
	return x.cfg.Decoder.Tapped(d, time.Now(), x.sequence.next())
}

func (x *Indexer) takeLifecycle(d amqp.Delivery) schemas.Event {
	event, err := x.cfg.Decoder.Lifecycle(d)
	if err != nil {
		event = x.takeTapped(d).Quarantine(err.Error())
		return event
	}
	event.Sequence = x.sequence.next()
	return event
}

// item is one delivery on its way to the store.
type item struct {
	event       schemas.Event
	document    schemas.Document
	redelivered bool
}

func (x *Indexer) item(d amqp.Delivery, event schemas.Event) item {
	event.Ingested = time.Now()
	return item{event: event, document: x.cfg.Format.Document(event), redelivered: d.Redelivered}
}

// replace gives the item another event, with the document that goes with it.
func (x *Indexer) replace(it *item, event schemas.Event) {
	it.event, it.document = event, x.cfg.Format.Document(event)
}

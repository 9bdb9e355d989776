package schemas

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Death is the reason and the place of one dead-lettering
// (https://www.rabbitmq.com/docs/dlx#effects).
type Death struct {
	Queue      string
	Reason     string // rejected, expired, maxlen, delivery_limit
	Exchange   string // with which the message was routed to the queue
	RoutingKey string
	Expiration string // milliseconds as text; the broker removed it from the message
	Time       time.Time
	Count      int64
}

// deathsOf parses x-death, the newest death first.
func deathsOf(headers amqp.Table) []Death {
	list, _ := headers["x-death"].([]any)
	var deaths []Death
	for _, element := range list {
		if entry, ok := element.(amqp.Table); ok {
			deaths = append(deaths, readDeath(entry))
		}
	}
	return deaths
}

func readDeath(entry amqp.Table) Death {
	h := typedTable(entry)
	death := Death{
		Queue:      h.text("queue"),
		Reason:     h.text("reason"),
		Exchange:   h.text("exchange"),
		Expiration: h.text("original-expiration"),
		Count:      h.int("count"),
	}
	death.Time, _ = entry["time"].(time.Time)
	if keys, _ := entry["routing-keys"].([]any); len(keys) > 0 {
		death.RoutingKey, _ = keys[0].(string)
	}
	if death.Exchange == "" { // the default exchange, even if a publisher set the header
		death.RoutingKey = death.Queue
	}
	return death
}

// DeadLetter returns the envelope of a dead letter as it was before dead-lettering,
// its newest death, and whether the message is a dead letter at all.
//
// A message that was dead-lettered more than once has its origin in the oldest
// death that leads to the newest. leads reports whether a death routed the message
// to the exchange of the next death; a nil leads means that none did. RabbitMQ
// before 4.0 adds to an x-death that a publisher copied from another message, whose
// deaths do not belong to this one.
func (e Envelope) DeadLetter(leads func(older, newer Death) bool) (Envelope, Death, bool) {
	deaths := deathsOf(e.Headers)
	if len(deaths) == 0 {
		return e, Death{}, false
	}
	origin := 0
	for leads != nil && origin+1 < len(deaths) && leads(deaths[origin+1], deaths[origin]) {
		origin++
	}
	return e.asBefore(deaths[origin]), deaths[0], true
}

// asBefore reverts the changes that dead-lettering made to a message.
func (e Envelope) asBefore(death Death) Envelope {
	e.Exchange, e.RoutingKey = death.Exchange, death.RoutingKey
	if e.Properties.Expiration == "" {
		e.Properties.Expiration = death.Expiration
	}
	e.Headers = without(e.Headers, SetByBroker, 0)
	return e
}

package wire

import (
	"github.com/watershipmq/watership/internal/wire/header"
	"github.com/watershipmq/watership/schemas"
)

// DeadLetter returns the envelope of a dead letter as it was before dead-lettering,
// its newest death, and whether the message is a dead letter at all.
//
// A message that was dead-lettered more than once has its origin in the oldest
// death that leads to the newest. leads reports whether a death routed the message
// to the exchange of the next death; a nil leads means that none did. RabbitMQ
// before 4.0 adds to an x-death that a publisher copied from another message, whose
// deaths do not belong to this one.
func DeadLetter(e schemas.Envelope, leads func(older, newer header.Death) bool) (schemas.Envelope, header.Death, bool) {
	deaths := header.Deaths(e.Headers)
	if len(deaths) == 0 {
		return e, header.Death{}, false
	}
	origin := 0
	for leads != nil && origin+1 < len(deaths) && leads(deaths[origin+1], deaths[origin]) {
		origin++
	}
	return asBefore(e, deaths[origin]), deaths[0], true
}

// asBefore reverts the changes that dead-lettering made to a message.
func asBefore(e schemas.Envelope, death header.Death) schemas.Envelope {
	e.Exchange, e.RoutingKey = death.Exchange, death.RoutingKey
	if e.Properties.Expiration == "" {
		e.Properties.Expiration = death.Expiration
	}
	e.Headers = header.Without(e.Headers, header.SetByBroker, 0)
	return e
}

package header

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

// Deaths parses x-death, the newest death first.
func Deaths(headers amqp.Table) []Death {
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
	h := Table(entry)
	death := Death{
		Queue:      h.Text("queue"),
		Reason:     h.Text("reason"),
		Exchange:   h.Text("exchange"),
		Expiration: h.Text("original-expiration"),
		Count:      h.Int("count"),
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

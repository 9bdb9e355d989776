// Package streamid finds the streams of messages in their headers, bodies and routing keys.
// A stream is the messages about one thing, such as an order; its publisher may number them.
// A service whose messages have streams:
//
//	func main() {
//		streams, err := streamid.New(streamid.Rule{
//			Exchange: "shop", Key: "order.#",
//			ID: "order-{body.json.order.id}", Version: "{headers.version}",
//		})
//		if err != nil {
//			log.Fatal(err)
//		}
//		p, err := pipeline.New(pipeline.Config{Connection: rabbitmq.Connection{URL: "amqp://localhost"}, Streams: streams})
//		if err != nil {
//			log.Fatal(err)
//		}
//		log.Fatal(p.Run(context.Background()))
//	}
//
// Every process of a system needs the same rules: `watership serve` has them in its
// configuration as streams.
package streamid

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/watershipmq/watership/internal/template/messagefield"
	"github.com/watershipmq/watership/internal/template/target"
	"github.com/watershipmq/watership/internal/topology/topicpattern"
	"github.com/watershipmq/watership/schemas"
)

// Rule says where the messages of an exchange have their stream.
type Rule struct {
	Exchange string // of the first publish; "": every exchange
	Key      string // pattern of routing keys, as of a topic exchange; "": every key

	// ID is text with fields of the message, as in a webhook.Config: {headers.NAME},
	// {body.json.NAME}, {body:/JSON/POINTER}, {routing_key.1} and others. Required.
	ID string

	// Version is a template of a whole number from 0 on, which may be text. "": the messages
	// have no version.
	Version string
}

// New returns a function that finds the stream of a message, by the first rule for its
// exchange and routing key whose id has all of its fields. A message has no stream if
// no rule gives an id, and no version if that is no whole number from 0 to 2⁵³. New returns
// nil without rules.
func New(rules ...Rule) (func(schemas.Envelope) schemas.MessageStream, error) {
	if len(rules) == 0 {
		return nil, nil
	}
	all := make([]rule, len(rules))
	for i, r := range rules {
		var err error
		if all[i], err = r.parse(); err != nil {
			return nil, fmt.Errorf("rule %d of streams: %w", i+1, err)
		}
	}
	return func(e schemas.Envelope) schemas.MessageStream { return find(all, e) }, nil
}

// rule is a Rule with its templates.
type rule struct {
	exchange, key string
	id, version   target.Template
}

func (r Rule) parse() (rule, error) {
	id, err := target.ParseTemplate(r.ID)
	if err == nil && !id.HasFields() {
		err = errors.New("expected a field of the message, such as {headers.order_id}")
	}
	if err != nil {
		return rule{}, fmt.Errorf("id %q: %w", r.ID, err)
	}
	version, err := target.ParseTemplate(r.Version)
	if err == nil && r.Version != "" && !version.HasFields() {
		err = errors.New("expected a field of the message, such as {headers.version}")
	}
	if err != nil {
		return rule{}, fmt.Errorf("version %q: %w", r.Version, err)
	}
	return rule{r.Exchange, r.Key, id, version}, nil
}

func find(rules []rule, e schemas.Envelope) (found schemas.MessageStream) {
	message := messagefield.New(e)
	for _, r := range rules {
		if !r.covers(e) {
			continue
		}
		id, err := r.id.Fill(message.Value)
		if err != nil {
			continue
		}
		found.ID = id
		text, _ := r.version.Fill(message.Value) // "" is no number
		if number, err := strconv.ParseUint(text, 10, 63); err == nil {
			found.Version, found.HasVersion = int64(number), true
		}
		return found
	}
	return found
}

func (r rule) covers(e schemas.Envelope) bool {
	return (r.exchange == "" || r.exchange == e.Exchange) && (r.key == "" || topicpattern.Matches(r.key, e.RoutingKey))
}

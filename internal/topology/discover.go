package topology

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

// Discovery finds the routing keys of direct exchanges by the management API, since a
// direct exchange has no key that matches all messages. A message whose key has no
// binding is not routed.
type Discovery struct {
	management *rabbit.Management
	vhost      string
}

// NewDiscovery returns a Discovery for the management API at a URL such as
// http://user:password@host:15672, with further nodes as host:port. Client may be nil.
func NewDiscovery(managementURL, vhost string, client *http.Client, nodes ...string) (*Discovery, error) {
	management, err := rabbit.NewManagement(managementURL, client, nodes...)
	if err != nil {
		return nil, err
	}
	return &Discovery{management, vhost}, nil
}

// DeadLetterExchanges returns the exchanges to which a queue may have sent a dead letter: the one of its
// argument, or else the ones of the policy that RabbitMQ lists and of all policies that are for the queue.
// RabbitMQ applies a policy within milliseconds, and lists up to ten seconds later which one a queue has.
// It fails with rabbit.ErrNotFound if the queue does not exist.
func (d *Discovery) DeadLetterExchanges(ctx context.Context, queue string) ([]string, error) {
	q, err := d.management.Queue(ctx, d.vhost, queue)
	if err != nil {
		return nil, err
	}
	if name, has := q.DeadLetterExchangeOfArgument(); has {
		return []string{name}, nil
	}
	policies, err := d.management.Policies(ctx, d.vhost)
	if err != nil {
		return nil, err
	}
	var names []string
	if name, has := q.DeadLetterExchange(); has {
		names = append(names, name)
	}
	for _, p := range policies {
		name, has := p.Definition["dead-letter-exchange"].(string)
		if applies, err := p.AppliesTo(q.Name, q.Type); has && (applies || err != nil) { // a pattern that only RabbitMQ can read may be for it
			names = append(names, name)
		}
	}
	return names, nil
}

// keys returns the routing keys of an exchange's bindings: to the tap, and to others.
func (d *Discovery) keys(ctx context.Context, exchange, tap string) (others, tapped []string, err error) {
	bindings, err := d.management.Bindings(ctx, d.vhost, exchange)
	for _, b := range bindings {
		if b.DestinationType == "exchange" && b.Destination == tap {
			tapped = append(tapped, b.RoutingKey)
		} else {
			others = append(others, b.RoutingKey)
		}
	}
	slices.Sort(others)
	return slices.Compact(others), tapped, err
}

// maxStaleKeys is the number of keys that stay tapped without another binding. A deploy
// that deletes and declares a queue misses no message then, and the bindings of exchanges
// with short-lived keys are bounded.
const maxStaleKeys = 1000

// needsDiscovery reports whether the keys come from the management API.
func (t Tap) needsDiscovery() bool { return t.Type == amqp.ExchangeDirect && len(t.Keys) == 0 }

// bindDiscovered taps a direct exchange by the keys that are bound now.
func (d declarer) bindDiscovered(tap Tap, c Config) error {
	others, tapped, err := c.Discovery.keys(d.ctx, tap.Exchange, c.Topology.Tap())
	if err != nil {
		return fmt.Errorf("tap of exchange %q: a direct exchange has no key for all, and its bindings are unknown: %w; "+
			"set amqp.management_url, or the keys of the exchange in tap.exchanges", tap.Exchange, err)
	}
	if err := d.bindKeys(tap, c.Topology.Tap(), missing(others, tapped)); err != nil {
		return err
	}
	if stale := missing(tapped, others); len(stale) > maxStaleKeys {
		return d.unbindKeys(tap, c.Topology.Tap(), stale)
	}
	return nil
}

func (d declarer) unbindKeys(tap Tap, from string, keys []string) error {
	return d.do(func(ch *amqp.Channel) error {
		for _, key := range keys {
			if err := ch.ExchangeUnbind(from, key, tap.Exchange, false, nil); err != nil {
				return fmt.Errorf("untap exchange %q with key %q: %w", tap.Exchange, key, err)
			}
		}
		return nil
	})
}

// missing returns the keys that are not in there.
func missing(keys, there []string) []string {
	known := map[string]bool{}
	for _, key := range there {
		known[key] = true
	}
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return known[key] })
}

package transport

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
)

// Discovery finds out by which keys a direct exchange is used, which has none for
// all: what nobody binds goes nowhere.
type Discovery struct {
	management *rabbit.Management
	vhost      string
}

// NewDiscovery asks the management API at a URL such as
// http://user:password@host:15672. Client may be nil.
func NewDiscovery(managementURL, vhost string, client *http.Client) (*Discovery, error) {
	management, err := rabbit.NewManagement(managementURL, client)
	if err != nil {
		return nil, err
	}
	return &Discovery{management, vhost}, nil
}

// DeadLetterExchange is where the dead letters of a queue go, "" where it has no
// dead-letter exchange, or the default one. It fails with rabbit.ErrNotFound where
// there is no such queue.
func (d *Discovery) DeadLetterExchange(ctx context.Context, queue string) (string, error) {
	q, err := d.management.Queue(ctx, d.vhost, queue)
	if err != nil {
		return "", err
	}
	name, _ := q.DeadLetterExchange()
	return name, nil
}

// keys lists the routing keys by which an exchange feeds others, and those by
// which it feeds our tap.
func (d *Discovery) keys(ctx context.Context, exchange, tap string) (others, ours []string, err error) {
	bindings, err := d.management.Bindings(ctx, d.vhost, exchange)
	for _, b := range bindings {
		if b.DestinationType == "exchange" && b.Destination == tap {
			ours = append(ours, b.RoutingKey)
		} else {
			others = append(others, b.RoutingKey)
		}
	}
	slices.Sort(others)
	return slices.Compact(others), ours, err
}

// maxStaleKeys is how many keys stay tapped that nobody else binds any more. A deploy
// that makes a queue anew misses nothing then, and exchanges with keys that come
// and go do not collect bindings without end.
const maxStaleKeys = 1000

// discovered: the keys are not configured, but asked for.
func (t Tap) discovered() bool { return t.Type == amqp.ExchangeDirect && len(t.Keys) == 0 }

// bindDiscovered taps a direct exchange by the keys that it has now.
func (d declarer) bindDiscovered(tap Tap, c TopologyConfig) error {
	others, ours, err := c.Discovery.keys(d.ctx, tap.Exchange, c.Topology.Tap())
	if err != nil {
		return fmt.Errorf("tap of exchange %q: a direct exchange has no key for all, and its bindings cannot be found out: %w; "+
			"set amqp.management_url, or the keys of the exchange in tap.exchanges", tap.Exchange, err)
	}
	if err := d.bindKeys(tap, c.Topology.Tap(), missing(others, ours)); err != nil {
		return err
	}
	if stale := missing(ours, others); len(stale) > maxStaleKeys {
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

// missing are the keys that are not among those that are there.
func missing(keys, there []string) []string {
	known := map[string]bool{}
	for _, key := range there {
		known[key] = true
	}
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool { return known[key] })
}

package topology

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// UnconfiguredTaps returns those bindings to the tap exchange that the configured taps lack:
// an exchange, or a routing key, was taken out of the configuration, and is still recorded.
func UnconfiguredTaps(bindings []rabbit.Binding, taps []Tap) (stale []rabbit.Binding) {
	keys := map[string][]string{}
	for _, tap := range taps {
		if tap.needsDiscovery() {
			keys[tap.Exchange] = nil
		} else {
			keys[tap.Exchange] = tap.configuredKeys()
		}
	}
	for _, b := range bindings {
		if b.Source == b.Destination {
			continue // it keeps returns from an alternate exchange
		}
		if wanted, configured := keys[b.Source]; !configured || wanted != nil && !slices.Contains(wanted, b.RoutingKey) {
			stale = append(stale, b)
		}
	}
	return stale
}

// Untap removes the bindings of an exchange to the tap exchange that the configured taps
// lack, and returns their number.
func (m Migration) Untap(ctx context.Context, exchange string, taps []Tap) (int, error) {
	bindings, err := m.Management.BindingsTo(ctx, m.VHost, m.Topology.Tap())
	if err != nil {
		return 0, err
	}
	stale := slices.DeleteFunc(UnconfiguredTaps(bindings, taps), func(b rabbit.Binding) bool { return b.Source != exchange })
	return len(stale), m.unbindTap(ctx, m.Topology.Tap(), stale)
}

func (m Migration) unbindTap(ctx context.Context, tap string, bindings []rabbit.Binding) error {
	for _, b := range bindings {
		err := m.Conn.Do(ctx, func(ch *amqp.Channel) error {
			return ch.ExchangeUnbind(tap, b.RoutingKey, b.Source, false, b.Arguments)
		})
		if err != nil {
			return fmt.Errorf("unbinding the tap from exchange %q: %w", b.Source, err)
		}
	}
	return nil
}

// OtherPrefix is the topology of another topology.prefix in the same virtual host.
type OtherPrefix struct {
	schemas.Topology
	Queues []string // names, in order
}

// OtherPrefixes finds the topologies of other prefixes, by the names and types of their exchanges.
func OtherPrefixes(own schemas.Topology, exchanges []rabbit.Exchange, queues []string) (others []OtherPrefix) {
	kinds := map[string]string{}
	for _, e := range exchanges {
		kinds[e.Name] = e.Type
	}
	for name, kind := range kinds {
		prefix, named := strings.CutSuffix(name, ".tap")
		of := schemas.Topology{Prefix: prefix}
		if !named || kind != amqp.ExchangeFanout || own.Owns(name) || kinds[of.Events()] != amqp.ExchangeTopic || kinds[of.Retry()] != amqp.ExchangeTopic {
			continue
		}
		other := OtherPrefix{Topology: of}
		for _, queue := range queues {
			if of.Owns(queue) {
				other.Queues = append(other.Queues, queue)
			}
		}
		slices.Sort(other.Queues)
		others = append(others, other)
	}
	slices.SortFunc(others, func(a, b OtherPrefix) int { return cmp.Compare(a.Prefix, b.Prefix) })
	return others
}

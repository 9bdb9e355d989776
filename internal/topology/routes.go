package topology

import (
	"context"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/topology/topicpattern"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/schemas"
)

// RouteChecker reports whether a message would reach a queue outside Watership's own
// topology. A mandatory publish to a tapped exchange cannot determine that: the tap
// is itself a route. RouteChecker queries the management API and caches the responses:
// use a new one for each check that must be current. It is not safe for concurrent
// use.
type RouteChecker struct {
	management *rabbit.Management
	conn       *rabbit.Connection
	vhost      string
	topology   schemas.Topology
	exchanges  map[string]exchangeBindings
}

type exchangeBindings struct {
	kind     string
	bindings []rabbit.Binding
}

// NewRouteChecker returns a checker that queries management about exchanges and conn about
// queues.
func NewRouteChecker(management *rabbit.Management, conn *rabbit.Connection, vhost string, topology schemas.Topology) *RouteChecker {
	return &RouteChecker{management, conn, vhost, topology, map[string]exchangeBindings{}}
}

// QueueExists reports whether a queue exists. It does not use the management API.
func (r *RouteChecker) QueueExists(ctx context.Context, queue string) (bool, error) {
	_, found, err := r.conn.QueueState(ctx, queue)
	return found, err
}

// Routable reports whether a message would be routed from its exchange, directly or
// through exchange bindings, to a queue outside Watership's own topology. Alternate
// exchanges do not count: the tap is a route, so they never apply. What was redacted matches
// every binding.
func (r *RouteChecker) Routable(ctx context.Context, e schemas.Envelope) (bool, error) {
	switch {
	case e.Exchange == "" && hasHashedKey(e):
		return true, nil
	case e.Exchange == "":
		return r.QueueExists(ctx, e.RoutingKey)
	}
	return r.reaches(ctx, e.Exchange, e, map[string]bool{})
}

func (r *RouteChecker) reaches(ctx context.Context, exchange string, e schemas.Envelope, seen map[string]bool) (bool, error) {
	if seen[exchange] {
		return false, nil
	}
	seen[exchange] = true
	from, err := r.exchange(ctx, exchange)
	if errors.Is(err, rabbit.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, binding := range from.bindings {
		if r.topology.Owns(binding.Destination) || !bindingMatches(from.kind, binding, e) {
			continue
		}
		if binding.DestinationType == "queue" {
			return true, nil
		}
		if there, err := r.reaches(ctx, binding.Destination, e, seen); there || err != nil {
			return there, err
		}
	}
	return false, nil
}

func (r *RouteChecker) exchange(ctx context.Context, name string) (exchangeBindings, error) {
	if known, ok := r.exchanges[name]; ok {
		return known, nil
	}
	info, err := r.management.Exchange(ctx, r.vhost, name)
	if err != nil {
		return exchangeBindings{}, err
	}
	bindings, err := r.management.Bindings(ctx, r.vhost, name)
	if err != nil {
		return exchangeBindings{}, err
	}
	r.exchanges[name] = exchangeBindings{info.Type, bindings}
	return r.exchanges[name], nil
}

// bindingMatches reports whether an exchange of the given type routes e by binding b
// (https://www.rabbitmq.com/docs/exchanges). For exchange types of plugins every
// binding counts; at worst the broker returns the message.
func bindingMatches(kind string, b rabbit.Binding, e schemas.Envelope) bool {
	switch kind {
	case amqp.ExchangeDirect:
		return b.RoutingKey == e.RoutingKey || hasHashedKey(e)
	case amqp.ExchangeTopic:
		return topicpattern.Matches(b.RoutingKey, e.RoutingKey) || hasHashedKey(e)
	case amqp.ExchangeHeaders:
		return headersMatch(b.Arguments, e)
	}
	return true
}

// hasHashedKey reports whether the original of a message may have another routing key.
func hasHashedKey(e schemas.Envelope) bool { return e.Redacted && privacy.HasHash(e.RoutingKey) }

// headersMatch reports whether headers match the arguments of a headers binding. It
// compares values as text, since JSON has lost the types of the arguments.
func headersMatch(arguments map[string]any, e schemas.Envelope) bool {
	mode, _ := arguments["x-match"].(string)
	matches, wanted := 0, 0
	for name, value := range arguments {
		if name == "x-match" || strings.HasPrefix(name, "x-") && !strings.HasSuffix(mode, "-with-x") {
			continue
		}
		wanted++
		have, present := e.Headers[name]
		text := fmt.Sprint(have)
		if present && (value == nil || text == fmt.Sprint(value) || e.Redacted && privacy.HasHash(text)) {
			matches++
		}
	}
	if strings.HasPrefix(mode, "any") {
		return matches > 0
	}
	return matches == wanted
}

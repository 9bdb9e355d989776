package rabbit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/schemas"
)

// Routes tells whether a message would reach a queue that is not ours. On a
// tapped exchange a mandatory publish cannot tell: the tap is itself a route.
// It asks the management API, and remembers the answers: use a new one for each
// question that has to be fresh. It is not safe for concurrent use.
type Routes struct {
	management *Management
	conn       *Connection
	vhost      string
	topology   schemas.Topology
	exchanges  map[string]routed
}

type routed struct {
	kind     string
	bindings []Binding
}

// NewRoutes asks management about exchanges and conn about queues.
func NewRoutes(management *Management, conn *Connection, vhost string, topology schemas.Topology) *Routes {
	return &Routes{management, conn, vhost, topology, map[string]routed{}}
}

// Queue says whether a queue exists. It needs no management API.
func (r *Routes) Queue(ctx context.Context, queue string) (bool, error) {
	_, found, err := r.conn.QueueState(ctx, queue)
	return found, err
}

// Exchange says whether a message would be routed from its exchange to a queue
// that is not ours, also by way of other exchanges. Alternate exchanges do not
// count: with a tap they never take effect.
func (r *Routes) Exchange(ctx context.Context, e schemas.Envelope) (bool, error) {
	if e.Exchange == "" {
		return r.Queue(ctx, e.RoutingKey)
	}
	return r.reaches(ctx, e.Exchange, e, map[string]bool{})
}

func (r *Routes) reaches(ctx context.Context, exchange string, e schemas.Envelope, seen map[string]bool) (bool, error) {
	if seen[exchange] {
		return false, nil
	}
	seen[exchange] = true
	from, err := r.exchange(ctx, exchange)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, binding := range from.bindings {
		if r.topology.Owns(binding.Destination) || !routes(from.kind, binding, e) {
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

func (r *Routes) exchange(ctx context.Context, name string) (routed, error) {
	if known, ok := r.exchanges[name]; ok {
		return known, nil
	}
	info, err := r.management.Exchange(ctx, r.vhost, name)
	if err != nil {
		return routed{}, err
	}
	bindings, err := r.management.Bindings(ctx, r.vhost, name)
	if err != nil {
		return routed{}, err
	}
	r.exchanges[name] = routed{info.Type, bindings}
	return r.exchanges[name], nil
}

// routes is how each type of exchange decides
// (https://www.rabbitmq.com/docs/exchanges). Of types that a plugin adds every
// binding counts: the worst is a message that the broker returns.
func routes(kind string, b Binding, e schemas.Envelope) bool {
	switch kind {
	case amqp.ExchangeDirect:
		return b.RoutingKey == e.RoutingKey
	case amqp.ExchangeTopic:
		return topicMatches(strings.Split(b.RoutingKey, "."), strings.Split(e.RoutingKey, "."))
	case amqp.ExchangeHeaders:
		return headersMatch(b.Arguments, e.Headers)
	}
	return true
}

// topicMatches: `*` is one word, `#` any number of them. Patterns and keys are
// others', so the time is bounded by their product.
func topicMatches(pattern, words []string) bool {
	// matched[n]: the pattern so far matches the first n words.
	matched := make([]bool, len(words)+1)
	matched[0] = true
	for _, part := range pattern {
		if part == "#" {
			for n := range words {
				matched[n+1] = matched[n+1] || matched[n]
			}
			continue
		}
		for n := len(words); n > 0; n-- {
			matched[n] = matched[n-1] && (part == "*" || part == words[n-1])
		}
		matched[0] = false
	}
	return matched[len(words)]
}

// headersMatch compares as text, since JSON has lost the types of the arguments.
func headersMatch(arguments map[string]any, headers amqp.Table) bool {
	mode, _ := arguments["x-match"].(string)
	matches, wanted := 0, 0
	for name, value := range arguments {
		if name == "x-match" || strings.HasPrefix(name, "x-") && !strings.HasSuffix(mode, "-with-x") {
			continue
		}
		wanted++
		have, present := headers[name]
		if present && (value == nil || fmt.Sprint(have) == fmt.Sprint(value)) {
			matches++
		}
	}
	if strings.HasPrefix(mode, "any") {
		return matches > 0
	}
	return matches == wanted
}

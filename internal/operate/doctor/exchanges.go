package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/topology"
)

// checkBindings checks that Watership's queues are bound to its exchanges.
func (t topologyChecks) checkBindings(ctx context.Context) {
	problems := len(t.findings)
	checkCopiesBound(ctx, t)
	t.checkQueuesBound(ctx, t.Topology.Late(), "", t.Topology.IndexLate())
	t.checkQueuesBound(ctx, t.Topology.Events(), "#", t.Topology.Log())
	t.checkQueuesBound(ctx, t.Topology.Retry(), "#", t.Topology.Retry())
	t.checkQueuesBound(ctx, t.Topology.Report(), "#", t.Topology.Report())
	t.checkQueuesBound(ctx, t.Topology.Direct(), "", t.directQueues()...)
	if len(t.findings) == problems {
		t.reportOK(BindingsCheck, "Watership's queues are bound to its exchanges")
	}
}

// directQueues returns the queues of Watership and of routes with a handler, which are
// bound to the direct exchange by their names.
func (b *broker) directQueues() []string {
	queues := []string{b.Topology.Due(), b.Topology.Poison(), b.Topology.Unstorable()}
	_, delays := b.ownQueues()
	queues = append(queues, slices.Sorted(maps.Keys(delays))...)
	for _, route := range b.Settings.Routes {
		if route.HasHandler() {
			queues = append(queues, route.Queue)
		}
	}
	return queues
}

// checkCopiesBound checks that the queues of copies are bound to the tap, by the exchange that divides
// copies among several.
func checkCopiesBound(ctx context.Context, t topologyChecks) {
	divides, queues := t.Topology.Partitions()
	if divides == "" {
		t.checkQueuesBound(ctx, t.Topology.Tap(), "", queues...)
		return
	}
	if !slices.Contains(t.types, rabbit.ExchangeType{Name: topology.ConsistentHash}) {
		t.report(PluginMissing, Error, "RabbitMQ has no exchanges of type "+topology.ConsistentHash+", by which index.partitions divides copies of messages", topology.EnableConsistentHash)
		return
	}
	problems := len(t.findings)
	t.checkQueuesBound(ctx, t.Topology.Tap(), "")
	if len(t.findings) > problems {
		return
	}
	bindings, err := t.management.BindingsTo(ctx, t.VHost, divides)
	if err == nil && !hasBinding(bindings, "exchange", divides, "") {
		t.report(BindingMissing, Error, fmt.Sprintf("exchange %s is not bound to exchange %s", divides, t.Topology.Tap()), "run watership setup")
	}
	t.checkQueuesBound(ctx, divides, topology.EqualWeight, queues...)
}

// checkQueuesBound checks that queues are bound to an exchange, by a key or by their names.
func (t topologyChecks) checkQueuesBound(ctx context.Context, exchange, key string, queues ...string) {
	bindings, err := t.management.Bindings(ctx, t.VHost, exchange)
	if err != nil || len(bindings) == 0 { // RabbitMQ lists none of an exchange that is missing
		_, err = t.management.Exchange(ctx, t.VHost, exchange)
	}
	switch {
	case errors.Is(err, rabbit.ErrNotFound):
		t.report(ExchangeMissing, Error, "exchange "+exchange+" is missing", "run watership setup")
		return
	case err != nil:
		t.report(BindingsUnknown, Error, err.Error(), "")
		return
	case t.checkFormerIndex(bindings):
		return
	}
	for _, queue := range queues {
		wanted := key
		if exchange == t.Topology.Direct() {
			wanted = queue
		}
		if !hasBinding(bindings, "queue", queue, wanted) {
			t.report(BindingMissing, Error, fmt.Sprintf("queue %s is not bound to exchange %s with key %q", queue, exchange, wanted), "run watership setup")
		}
	}
}

// checkFormerIndex reports a queue of tap copies that has the limit, the type or the division of another
// configuration, or an exchange that leads to some, and whether there is one.
func (t topologyChecks) checkFormerIndex(bindings []rabbit.Binding) bool {
	divides, _ := t.Topology.Partitions()
	for _, b := range bindings {
		_, former := t.Topology.FormerIndex(b.Destination)
		if former || b.DestinationType == "exchange" && b.Destination != divides && strings.HasPrefix(b.Destination, t.Topology.Name(".index.")) {
			t.report(FormerIndexBound, Error, fmt.Sprintf(b.DestinationType+" %s is bound to the tap, and tap.when_full, tap.limit, tap.queue_type and index.partitions say %s", b.Destination, t.Topology.Index()),
				"stop serve and run watership setup")
			return true
		}
	}
	return false
}

func hasBinding(bindings []rabbit.Binding, kind, destination, key string) bool {
	return slices.ContainsFunc(bindings, func(b rabbit.Binding) bool {
		return b.DestinationType == kind && b.Destination == destination && b.RoutingKey == key
	})
}

// checkTapped checks the type of each tapped exchange, the bindings of the tap, and that
// clock is no alternate exchange: the tap is a route, so it would never take effect.
func (t topologyChecks) checkTapped(ctx context.Context) {
	for _, tap := range t.Settings.Tap.Exchanges {
		exchange, err := t.management.Exchange(ctx, t.VHost, tap.Name)
		switch {
		case errors.Is(err, rabbit.ErrNotFound):
			t.report(TappedExchangeMissing, Error, "exchange "+tap.Name+" is missing", "run watership setup, or take it out of tap.exchanges")
			continue
		case err != nil:
			t.report(TapUnknown, Error, err.Error(), "")
			continue
		case exchange.Type != tap.Type:
			t.report(TappedExchangeType, Error, fmt.Sprintf("exchange %s is of type %s, tap.exchanges says %s", tap.Name, exchange.Type, tap.Type), "give tap.exchanges the type that the exchange has")
			continue
		}
		t.checkTap(ctx, tap)
		if alternate := t.alternateExchange(exchange); alternate != "" {
			t.report(TapStarvesAlternate, Warning, fmt.Sprintf("exchange %s has the alternate exchange %s, which gets nothing while it is tapped: the tap is a route", tap.Name, alternate),
				"bind what the alternate exchange fed to the exchange itself, or do not tap it")
		}
	}
}

func (t topologyChecks) checkTap(ctx context.Context, tap config.TapExchange) {
	bindings, err := t.management.Bindings(ctx, t.VHost, tap.Name)
	if err != nil {
		t.report(TapUnknown, Error, err.Error(), "")
		return
	}
	keys := tap.Keys
	if len(keys) == 0 && tap.Type == "topic" {
		keys = []string{"#"}
	} else if len(keys) == 0 && tap.Type == "direct" {
		keys = otherBindingKeys(bindings, t.Topology.Tap())
	} else if len(keys) == 0 {
		keys = []string{""}
	}
	for _, key := range keys {
		if !hasBinding(bindings, "exchange", t.Topology.Tap(), key) {
			t.report(TapMissing, Error, fmt.Sprintf("exchange %s is not tapped: nothing binds %s to it with key %q", tap.Name, t.Topology.Tap(), key), "run watership setup")
			return
		}
	}
	t.reportOK(TapCheck, "exchange %s is tapped", tap.Name)
}

// otherBindingKeys returns the keys of the bindings to destinations other than the tap.
func otherBindingKeys(bindings []rabbit.Binding, tap string) (keys []string) {
	for _, b := range bindings {
		if b.Destination != tap {
			keys = append(keys, b.RoutingKey)
		}
	}
	return keys
}

// alternateExchange returns the alternate exchange of an exchange, by argument or policy.
func (b *broker) alternateExchange(exchange rabbit.Exchange) string {
	if name, is := exchange.Arguments["alternate-exchange"].(string); is {
		return name
	}
	for _, policy := range b.policies {
		if name, is := policy.Definition["alternate-exchange"].(string); is && policy.Name == exchange.Policy {
			return name
		}
	}
	return ""
}

// checkDeadLetters looks for queues of other services whose dead-lettering can lose
// messages: Watership never sees these.
func (t topologyChecks) checkDeadLetters(ctx context.Context) {
	var atMostOnce, missingExchange []string
	exchanges := map[string]bool{"": true}
	for _, name := range slices.Sorted(maps.Keys(t.queues)) {
		queue := t.queues[name]
		exchange, has := queue.DeadLetterExchange()
		if !has || t.Topology.Owns(name) {
			continue
		}
		there, known := exchanges[exchange]
		if !known {
			_, err := t.management.Exchange(ctx, t.VHost, exchange)
			there = !errors.Is(err, rabbit.ErrNotFound)
			exchanges[exchange] = there
		}
		switch {
		case !there:
			missingExchange = append(missingExchange, fmt.Sprintf("%s (%s)", name, exchange))
		case !atLeastOnce(queue):
			atMostOnce = append(atMostOnce, name)
		}
	}
	if len(missingExchange) > 0 {
		t.report(DeadLetterExchangeMissing, Warning, "the dead-letter exchange is missing, so rejected messages are dropped, of "+firstOf(maxNames, missingExchange), "declare the exchange, or take it out of the queue's policy")
	}
	if len(atMostOnce) > 0 {
		t.report(DeadLettersAtMostOnce, Warning, "dead-lettering is at most once, so that a crash of the broker can lose a dead letter, of "+firstOf(maxNames, atMostOnce),
			"quorum queues with dead-letter-strategy at-least-once and overflow reject-publish keep it")
	}
	if len(missingExchange) == 0 && len(atMostOnce) == 0 {
		t.reportOK(DeadLettersCheck, "no queue loses any")
	}
}

// atLeastOnce reports whether a queue dead-letters at least once. That needs a quorum
// queue, the strategy, and reject-publish: else RabbitMQ silently falls back.
func atLeastOnce(queue rabbit.Queue) bool {
	strategy, declared := queue.Arguments["x-dead-letter-strategy"]
	if !declared {
		strategy = queue.Effective["dead-letter-strategy"]
	}
	return queue.Type == "quorum" && strategy == "at-least-once" && queue.Overflow() == "reject-publish"
}

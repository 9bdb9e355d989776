package doctor

import (
	"context"
	"fmt"

	"github.com/watershipmq/watership/internal/rabbit"
)

// checkReturns looks for exchanges of Watership that neither are their own alternate exchange
// nor are bound to themselves, so that a policy can keep RabbitMQ from returning messages that
// no queue gets. A former release declared them.
func (t topologyChecks) checkReturns(ctx context.Context) {
	problems := len(t.findings)
	for _, name := range t.Topology.Exchanges() {
		exchange, err := t.management.Exchange(ctx, t.VHost, name)
		if err != nil { // checkBindings reports it
			return
		}
		alternate := t.alternateExchange(exchange)
		if alternate == name {
			continue
		}
		bindings, err := t.management.Bindings(ctx, t.VHost, name)
		switch {
		case err != nil:
			t.report(ReturnsUnknown, Error, err.Error(), "")
		case returnsAll(exchange, bindings):
		case alternate == "":
			t.report(ReturnExchangeFormer, Warning, fmt.Sprintf("exchange %s is of a former release: a policy with alternate-exchange would take messages that no queue gets", name), "run watership setup")
		default:
			t.report(ReturnExchangeDiverted, Error, fmt.Sprintf("exchange %s has the alternate exchange %s, which takes messages that no queue gets, and they are lost to Watership", name, alternate), "run watership setup")
		}
	}
	if len(t.findings) == problems {
		t.reportOK(ReturnsCheck, "RabbitMQ returns what no queue gets")
	}
}

// returnsAll reports whether an exchange is bound to itself: with one binding for all messages,
// or, a direct exchange, with the key of each queue.
func returnsAll(exchange rabbit.Exchange, bindings []rabbit.Binding) bool {
	switch exchange.Type {
	case "topic":
		return hasBinding(bindings, "exchange", exchange.Name, "#")
	case "direct":
		for _, b := range bindings {
			if b.DestinationType == "queue" && !hasBinding(bindings, "exchange", exchange.Name, b.RoutingKey) {
				return false
			}
		}
		return true
	}
	return hasBinding(bindings, "exchange", exchange.Name, "")
}

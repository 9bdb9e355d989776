package routes

import (
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/pipeline"
)

// ordersAndInvoices are a route with a handler, and one of the queue of another program.
const ordersAndInvoices = `WATERSHIP_ROUTES=[{queue: orders, handler: {http: {url: "http://127.0.0.1:1/"}}}, {queue: invoices}]`

// site is the routes of a System on an embedded broker, whose topology is declared.
type site struct {
	Service
	broker  rabbittest.Broker
	channel *amqp.Channel
}

func newSite(t *testing.T, environ ...string) site {
	t.Helper()
	sys, broker := systemtest.Embedded(t, environ...)
	must(t, pipeline.Declare(t.Context(), Handlers(sys)))
	return site{Service{System: sys}, broker, broker.Channel(t)}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// declare declares a queue of another program.
func (s site) declare(t *testing.T, queue string, args amqp.Table) {
	t.Helper()
	_, err := s.channel.QueueDeclare(queue, true, false, false, false, args)
	must(t, err)
}

// consume consumes a queue with a consumer tag.
func (s site) consume(t *testing.T, queue, tag string) {
	t.Helper()
	_, err := s.broker.Channel(t).Consume(queue, tag, false, false, false, false, nil)
	must(t, err)
}

// all returns the states of the routes by queue.
func (s site) all(t *testing.T) map[string]RouteState {
	t.Helper()
	states, err := s.States(t.Context(), false)
	must(t, err)
	found := map[string]RouteState{}
	for _, state := range states {
		found[state.Queue] = state
	}
	return found
}

// because is the decision of an operator.
func because(why string) reason.Decision { return reason.Decision{Operator: "ann", Reason: why} }

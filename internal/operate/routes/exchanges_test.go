package routes

import (
	"context"
	"slices"
	"testing"

	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/system/systemtest"
)

// exchangesOf returns the exchanges that a caller sees, and why there are not more.
func exchangesOf(t *testing.T, s Service, ctx context.Context) ([]string, string) {
	t.Helper()
	out, err := operations{s}.listExchanges(ctx, nil)
	must(t, err)
	return out.Body.Exchanges, out.Body.Problem
}

// An exchange is tapped, and a route is bound to another one.
const (
	tapOfShop    = "WATERSHIP_TAP_EXCHANGES=[{name: shop, type: topic}]"
	routeOfMails = `WATERSHIP_ROUTES=[{queue: orders, bind: [{exchange: mails}], handler: {http: {url: "http://127.0.0.1:1/"}}}]`
)

func TestExchangesOfTheConfigurationAndTheBroker(t *testing.T) {
	sys, broker := systemtest.Embedded(t, tapOfShop, routeOfMails)
	s, channel := Service{System: sys}, broker.Channel(t)
	must(t, channel.ExchangeDeclare("stock", "topic", true, false, false, false, nil))
	must(t, channel.ExchangeDeclare("hidden", "topic", true, false, true, false, nil))
	must(t, channel.ExchangeDeclare(sys.Topology().Events(), "topic", true, false, false, false, nil))
	got, problem := exchangesOf(t, s, as(t))
	want := []string{"amq.direct", "amq.fanout", "amq.headers", "amq.match", "amq.topic", "mails", "shop", "stock"}
	if !slices.Equal(got, want) || problem != "" {
		t.Errorf("%q (%s), want %q", got, problem, want)
	}
	limited := access.AsOperator("ann")
	limited.Exchanges = []string{"s*"}
	if got, _ := exchangesOf(t, s, access.NewContext(t.Context(), limited)); !slices.Equal(got, []string{"shop", "stock"}) {
		t.Errorf("a caller of s* sees %q", got)
	}
}

func TestExchangesWithoutTheManagementAPI(t *testing.T) {
	sys := systemtest.New(t, "WATERSHIP_AMQP_URL=amqp://127.0.0.1:1/", "WATERSHIP_AMQP_MANAGEMENT_URL=http://127.0.0.1:1", tapOfShop)
	if got, problem := exchangesOf(t, Service{System: sys}, as(t)); !slices.Equal(got, []string{"shop"}) || problem == "" {
		t.Errorf("%q, %q", got, problem)
	}
}

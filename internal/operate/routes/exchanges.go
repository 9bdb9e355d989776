package routes

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
)

// ListExchanges names what messages can be published to.
var ListExchanges = operation.Declare[struct{}, ExchangesOutput](operation.Operation{
	Method: http.MethodGet, Path: "/exchanges", ID: "listExchanges", Tag: "system", Role: access.Viewer,
	Summary: "List the exchanges of the virtual host",
	Text:    "Those of the server's configuration, and those that RabbitMQ's management API shows, without Watership's, internal ones and the default exchange.",
})

// ExchangesOutput is the output of ListExchanges.
type ExchangesOutput struct{ Body Exchanges }

// Exchanges are the names of exchanges, in order.
type Exchanges struct {
	Exchanges []string `json:"exchanges" nullable:"false"`
	Problem   string   `json:"problem,omitempty" doc:"Why only those of the configuration are listed"`
}

func (o operations) listExchanges(ctx context.Context, _ *struct{}) (*ExchangesOutput, error) {
	sys, names, problem := o.service.System, map[string]bool{}, ""
	for _, tap := range sys.Settings().Tap.Exchanges {
		names[tap.Name] = true
	}
	for _, route := range sys.Settings().Routes {
		for _, bind := range route.Bind {
			names[bind.Exchange] = true
		}
	}
	if management, err := sys.Management(); err != nil {
		problem = err.Error()
	} else if existing, err := management.Exchanges(ctx, sys.VHost()); err != nil {
		problem = err.Error()
	} else {
		for _, exchange := range existing {
			names[exchange.Name] = exchange.Name != "" && !exchange.Internal && !sys.Topology().Owns(exchange.Name)
		}
	}
	caller := access.FromContext(ctx)
	maps.DeleteFunc(names, func(name string, listed bool) bool { return !listed || !caller.MayExchange(name) })
	return &ExchangesOutput{Exchanges{append([]string{}, slices.Sorted(maps.Keys(names))...), problem}}, nil
}

package messages

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

// GetServiceMap is the operation of this file.
var GetServiceMap = operation.Declare[MapInput, MapOutput](operation.Operation{
	Method: http.MethodGet, Path: "/map", ID: "getServiceMap", Tag: "events", Role: access.Viewer,
	Summary: "Get the map of services",
	Text: "The ways of messages as they were recorded: from publishers, known by app_id, to exchanges, queues and services. The service " +
		"of a queue is known by the app_id of the messages that its handler publishes.",
})

// MapInput is the input of GetServiceMap.
type MapInput struct {
	eventfilter.QueryFilter
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"Maximum number of edges"`
}

// MapOutput is the output of GetServiceMap.
type MapOutput struct{ Body ServiceMap }

// ServiceMap has the ways of messages.
type ServiceMap struct {
	Edges         []MapEdge `json:"edges" nullable:"false" doc:"Those with most messages first"`
	OmittedEdges  int       `json:"omitted_edges" doc:"Edges beyond the limit"`
	OmittedEvents int64     `json:"omitted_events" doc:"Events of further exchanges, publishers and queues, which have no edges"`
	Seconds       float64   `json:"seconds" doc:"Length of the period of the rates"`
}

// MapEdge is a way of messages.
type MapEdge struct {
	From     MapNode `json:"from"`
	To       MapNode `json:"to"`
	Messages int64   `json:"messages" doc:"Messages that were published to an exchange; that a queue is done with, since they were handled or are poison; or that a service has handled"`
	Rate     float64 `json:"rate" doc:"Messages a second"`
	Failed   int64   `json:"failed" doc:"Poison, of an edge to a queue; attempts that failed, of an edge to a service"`
	P95      float64 `json:"p95_seconds,omitempty" doc:"95th percentile of the time from publish to handled, of an edge to a queue, or of an attempt, of an edge to a service; none: not known"`
	Query    string  `json:"query" doc:"Query for its events in the period"`
}

// MapNode is a publisher or service, an exchange or a queue.
type MapNode struct {
	Kind string `json:"kind" enum:"service,exchange,queue" doc:"A publisher is a service"`
	Name string `json:"name" doc:"Empty: publishers without app_id, the default exchange, or the service of the queue, which is not known"`
}

// The kinds of nodes.
const (
	MapServices  = "service"
	MapExchanges = "exchange"
	MapQueues    = "queue"
)

// serviceMaps is the function of the operation.
type serviceMaps struct{ *system.System }

func (s serviceMaps) get(ctx context.Context, in *MapInput) (*MapOutput, error) {
	sel, err := in.Selection(ctx, s.System)
	if err != nil {
		return nil, err
	}
	store, err := s.Store(ctx)
	if err != nil {
		return nil, err
	}
	found, err := history.FindServiceMap(ctx, store, sel.Query, pipeline.HeaderCausation)
	if err == nil && len(found.Publishes)+len(found.Queues) == 0 {
		err = store.Check(ctx) // may be the reason
	}
	if err != nil {
		return nil, err
	}
	over, err := in.length(ctx, store, sel)
	if err != nil {
		return nil, err
	}
	edges := edgesOf(found, over)
	shown := min(len(edges), in.Limit)
	return &MapOutput{ServiceMap{edges[:shown], len(edges) - shown, found.Omitted, over.Seconds()}}, nil
}

// length returns the length of the period up to now, which begins with the first event if it has no begin. It is zero
// without events.
func (in *MapInput) length(ctx context.Context, store system.EventStore, sel eventstore.Selection) (time.Duration, error) {
	zone, err := in.Location()
	if err != nil {
		return 0, err
	}
	begin, end, err := in.Period(zone).Bounds()
	if err != nil {
		return 0, err
	}
	if begin.IsZero() {
		if begin, err = store.FirstTime(ctx, sel); err != nil || begin.IsZero() {
			return 0, err
		}
	}
	if now := time.Now(); end.IsZero() || end.After(now) {
		end = now
	}
	return max(0, end.Sub(begin)), nil
}

// edgesOf returns the edges of a map, those with most messages first, and of equal ones that nearest to a publisher.
func edgesOf(found history.ServiceMap, over time.Duration) []MapEdge {
	edges := []MapEdge{}
	add := func(e MapEdge, query ...kql.Node) {
		if e.Query = kql.And(query).String(); over > 0 {
			e.Rate = float64(e.Messages) / over.Seconds()
		}
		edges = append(edges, e)
	}
	for _, p := range found.Publishes {
		add(MapEdge{From: MapNode{MapServices, p.Publisher}, To: MapNode{MapExchanges, p.Exchange}, Messages: p.Messages},
			isAction(schemas.Published), history.FieldIsOrNone("destination.name", p.Exchange), history.FieldIsOrNone("app_id", p.Publisher))
	}
	for _, r := range found.Routed {
		add(MapEdge{From: MapNode{MapExchanges, r.Exchange}, To: MapNode{MapQueues, r.Queue}, Messages: r.Handled + r.Poisoned, Failed: r.Poisoned, P95: r.Total.Seconds()},
			kql.Or{isAction(schemas.Handled), isAction(schemas.Poisoned)}, history.FieldIsOrNone("destination.name", r.Exchange), kql.FieldIs("queue", r.Queue))
	}
	for _, q := range found.Queues {
		add(MapEdge{From: MapNode{MapQueues, q.Queue}, To: MapNode{MapServices, q.Service}, Messages: q.Handled, Failed: q.Failed, P95: q.Handler.Seconds()},
			kql.Or{isAction(schemas.Handled), isAction(schemas.RetryScheduled), isAction(schemas.Poisoned)}, kql.FieldIs("queue", q.Queue))
	}
	slices.SortStableFunc(edges, func(a, b MapEdge) int { return cmp.Compare(b.Messages, a.Messages) })
	return edges
}

// isAction is a condition of a query for people, by the short name of the field.
func isAction(action schemas.Action) kql.Node { return kql.FieldIs("action", string(action)) }

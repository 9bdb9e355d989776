package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/watershipmq/watership/internal/access"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/rabbit"
)

func (a *API) registerRoutes() {
	register(a, operation{
		method: http.MethodGet, path: "/routes", id: "listRoutes", tag: "system", role: access.Viewer,
		summary: "List routes, their queue lengths and which are paused",
	}, a.listRoutes)
	register(a, operation{
		method: http.MethodGet, path: "/queues", id: "listQueues", tag: "system", role: access.Viewer,
		summary: "List the queues of the virtual host with their numbers",
	}, a.listQueues)
}

type routesOutput struct{ Body Routes }

// Routes are the configured routes, and routes of other services that are paused.
type Routes struct {
	Routes []app.RouteState `json:"routes" nullable:"false"`
}

func (a *API) listRoutes(ctx context.Context, _ *struct{}) (*routesOutput, error) {
	states, err := a.app.RouteStates(ctx)
	if err != nil {
		return nil, err
	}
	caller := access.FromContext(ctx)
	out := &routesOutput{Routes{[]app.RouteState{}}}
	for _, state := range states {
		if caller.MayQueue(state.Queue) {
			out.Body.Routes = append(out.Body.Routes, state)
		}
	}
	return out, nil
}

type queuesInput struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"Maximum number of queues"`
	Cursor string `query:"cursor" maxLength:"255" doc:"Cursor of the page before"`
}

type queuesOutput struct{ Body QueuePage }

// QueuePage is a page of queues, sorted by name.
type QueuePage struct {
	Queues []Queue `json:"queues" nullable:"false"`
	Cursor string  `json:"cursor,omitempty" doc:"Continues after this page; none: this is the last"`
}

// Queue is a queue of RabbitMQ.
type Queue struct {
	Name         string `json:"name"`
	Type         string `json:"type" doc:"quorum, classic or stream"`
	Own          bool   `json:"own" doc:"It is one of Watership's own"`
	Available    bool   `json:"available"`
	Messages     int64  `json:"messages"`
	Ready        int64  `json:"ready"`
	Unacked      int64  `json:"unacked"`
	Consumers    int    `json:"consumers"`
	Published    int64  `json:"published" doc:"Since it was declared or the broker was started"`
	Acknowledged int64  `json:"acknowledged" doc:"Since it was declared or the broker was started"`
}

func (a *API) listQueues(ctx context.Context, in *queuesInput) (*queuesOutput, error) {
	management, err := a.app.Management()
	if err != nil {
		return nil, err
	}
	queues, err := management.Queues(ctx, a.app.VHost())
	if err != nil {
		return nil, &app.BrokerError{Err: err}
	}
	slices.SortFunc(queues, func(x, y rabbit.Queue) int { return cmp.Compare(x.Name, y.Name) })
	caller, topology := access.FromContext(ctx), a.app.Topology()
	page := QueuePage{Queues: []Queue{}}
	for _, q := range queues {
		if !caller.MayQueue(q.Name) || in.Cursor != "" && q.Name <= in.Cursor {
			continue
		}
		if len(page.Queues) == in.Limit {
			page.Cursor = page.Queues[in.Limit-1].Name
			break
		}
		page.Queues = append(page.Queues, Queue{
			q.Name, q.Type, topology.Owns(q.Name), q.Available(), q.Messages, q.Ready, q.Unacked, q.Consumers, q.Stats.Published, q.Stats.Acknowledged,
		})
	}
	return &queuesOutput{page}, nil
}

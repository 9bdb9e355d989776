package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/access"
	"github.com/watershipmq/watership/internal/app"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/problem"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/routestate"
)

func (a *API) registerRoutes() {
	register(a, operation.Operation{
		Method: http.MethodGet, Path: "/routes", ID: "listRoutes", Tag: "system", Role: access.Viewer,
		Summary: "List routes, their queue lengths and which are paused",
		Text:    "The routes of the server's configuration, then those of other processes, which RabbitMQ's management API shows.",
	}, a.listRoutes)
	register(a, operation.Operation{
		Method: http.MethodPost, Path: "/routes/{queue}/pause", ID: "pauseRoute", Tag: "system", Role: access.Operator,
		Summary: "Pause a route in every process",
		Text:    "Handlers finish their messages, and take no more within seconds. The route stays paused over restarts, until it is resumed.",
	}, a.pauseRoute)
	register(a, operation.Operation{
		Method: http.MethodPost, Path: "/routes/{queue}/resume", ID: "resumeRoute", Tag: "system", Role: access.Operator,
		Summary: "Resume a route that an operator has paused",
	}, a.resumeRoute)
	register(a, operation.Operation{
		Method: http.MethodPost, Path: "/routes/pause", ID: "pauseAllRoutes", Tag: "system", Role: access.Operator,
		Summary: "Pause all routes in every process",
		Text:    "As for one route, also for routes that are added later. It is for callers without limits.",
	}, a.pauseAll)
	register(a, operation.Operation{
		Method: http.MethodPost, Path: "/routes/resume", ID: "resumeAllRoutes", Tag: "system", Role: access.Operator,
		Summary: "Resume all routes after a pause of all",
		Text:    "Routes that are paused themselves stay so.",
	}, a.resumeAll)
	register(a, operation.Operation{
		Method: http.MethodGet, Path: "/queues", ID: "listQueues", Tag: "system", Role: access.Viewer,
		Summary: "List the queues of the virtual host with their numbers",
	}, a.listQueues)
}

type routesOutput struct{ Body Routes }

type routesInput struct {
	Recent bool `query:"recent" doc:"Tell how the latest messages of each route fared"`
}

// Routes are the routes that the server knows.
type Routes struct {
	Routes  []RouteState `json:"routes" nullable:"false"`
	Problem string       `json:"problem,omitempty" doc:"Why the store does not tell which routes are paused, and how their messages fared"`
}

// RouteState is the state of a route and its queue.
type RouteState routestate.State

func (a *API) listRoutes(ctx context.Context, in *routesInput) (*routesOutput, error) {
	states, err := a.app.RouteStates(ctx, in.Recent)
	out := &routesOutput{Routes{Routes: []RouteState{}}}
	var away *eventstore.Error
	if err != nil && (states == nil || !errors.As(err, &away)) {
		return nil, err
	} else if err != nil {
		out.Body.Problem = err.Error()
	}
	caller := access.FromContext(ctx)
	for _, state := range states {
		if caller.MayQueue(state.Queue) {
			out.Body.Routes = append(out.Body.Routes, RouteState(state))
		}
	}
	return out, nil
}

type pauseInput struct {
	Queue string `path:"queue" maxLength:"255" doc:"Queue of the route"`
	pauseAllInput
}

type pauseAllInput struct {
	IdempotencyKey
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"1000" pattern:"\\S" doc:"Why it is paused"`
	}
}

type resumeRouteInput struct {
	Queue string `path:"queue" maxLength:"255" doc:"Queue of the route"`
	resumeAllInput
}

type resumeAllInput struct {
	IdempotencyKey
	Body struct {
		Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Why it is resumed"`
	}
}

type pauseOutput struct{ Body PausedRoute }

// PausedRoute is a route that was paused or resumed.
type PausedRoute struct {
	Queue  string `json:"queue"`
	Paused bool   `json:"paused" doc:"An operator has paused it"`
}

func (a *API) pauseRoute(ctx context.Context, in *pauseInput) (*pauseOutput, error) {
	decision, err := decisionAbout(ctx, "pause", in.Queue, in.Body.Reason)
	if err == nil {
		err = a.app.PauseRoute(ctx, in.Queue, decision)
	}
	return &pauseOutput{PausedRoute{in.Queue, true}}, err
}

func (a *API) resumeRoute(ctx context.Context, in *resumeRouteInput) (*pauseOutput, error) {
	decision, err := decisionAbout(ctx, "resume", in.Queue, in.Body.Reason)
	if err == nil {
		err = a.app.ResumeRoute(ctx, in.Queue, decision)
	}
	return &pauseOutput{PausedRoute{in.Queue, false}}, err
}

type pauseAllOutput struct{ Body PausedRoutes }

// PausedRoutes are all routes, which were paused or resumed.
type PausedRoutes struct {
	Paused bool `json:"paused" doc:"An operator has paused all routes"`
}

func (a *API) pauseAll(ctx context.Context, in *pauseAllInput) (*pauseAllOutput, error) {
	decision, err := decisionAboutAll(ctx, "pause", in.Body.Reason)
	if err == nil {
		err = a.app.PauseAll(ctx, decision)
	}
	return &pauseAllOutput{PausedRoutes{true}}, err
}

func (a *API) resumeAll(ctx context.Context, in *resumeAllInput) (*pauseAllOutput, error) {
	decision, err := decisionAboutAll(ctx, "resume", in.Body.Reason)
	if err == nil {
		err = a.app.ResumeAll(ctx, decision)
	}
	return &pauseAllOutput{PausedRoutes{false}}, err
}

// decisionAboutAll describes an action on all routes, for which a caller needs all queues.
func decisionAboutAll(ctx context.Context, action, reason string) (app.Decision, error) {
	caller := access.FromContext(ctx)
	access.Describe(ctx, access.Action{Name: action, Object: "all routes", Reason: reason})
	if caller.Limited() {
		return app.Decision{}, problem.Forbidden(caller.Name+" may not use all queues", "Ask for a token without limits, or name a route.")
	}
	return app.Decision{Operator: caller.Name, Reason: reason}, nil
}

// decisionAbout describes an action on a route, which the caller must be allowed to use.
func decisionAbout(ctx context.Context, action, queue, reason string) (app.Decision, error) {
	caller := access.FromContext(ctx)
	access.Describe(ctx, access.Action{Name: action, Object: "route " + queue, Reason: reason})
	if !caller.MayQueue(queue) {
		return app.Decision{}, problem.Forbidden(caller.Name+" may not use the queue "+queue, "Ask for a token for it.")
	}
	return app.Decision{Operator: caller.Name, Reason: reason}, nil
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

// Package routes makes the handlers of the configured routes, finds the state of each route,
// and has what operators do with them: they pause, resume, add and remove them.
package routes

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/access"
	"github.com/watershipmq/watership/internal/operation/problem"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/system"
)

// operations are the operations of the HTTP API.
type operations struct{ service Service }

// Register adds the operations on routes to an API.
func Register(set *operation.Set, service Service) {
	o := operations{service}
	operation.Register(set, operation.Operation{
		Method: http.MethodGet, Path: "/routes", ID: "listRoutes", Tag: "system", Role: access.Viewer,
		Summary: "List routes, their queue lengths and which are paused",
		Text:    "The routes of the server's configuration, then those of other processes, which RabbitMQ's management API shows.",
	}, o.listRoutes)
	operation.Register(set, operation.Operation{
		Method: http.MethodPost, Path: "/routes/{queue}/pause", ID: "pauseRoute", Tag: "system", Role: access.Operator,
		Summary: "Pause a route in every process",
		Text:    "Handlers finish their messages, and take no more within seconds. The route stays paused over restarts, until it is resumed.",
	}, o.pauseRoute)
	operation.Register(set, operation.Operation{
		Method: http.MethodPost, Path: "/routes/{queue}/resume", ID: "resumeRoute", Tag: "system", Role: access.Operator,
		Summary: "Resume a route that an operator has paused",
	}, o.resumeRoute)
	operation.Register(set, operation.Operation{
		Method: http.MethodPost, Path: "/routes/pause", ID: "pauseAllRoutes", Tag: "system", Role: access.Operator,
		Summary: "Pause all routes in every process",
		Text:    "As for one route, also for routes that are added later. It is for callers without limits.",
	}, o.pauseAll)
	operation.Register(set, operation.Operation{
		Method: http.MethodPost, Path: "/routes/resume", ID: "resumeAllRoutes", Tag: "system", Role: access.Operator,
		Summary: "Resume all routes after a pause of all",
		Text:    "Routes that are paused themselves stay so.",
	}, o.resumeAll)
	operation.Register(set, operation.Operation{
		Method: http.MethodGet, Path: "/queues", ID: "listQueues", Tag: "system", Role: access.Viewer,
		Summary: "List the queues of the virtual host with their numbers",
	}, o.listQueues)
	o.registerPolicies(set)
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
type RouteState State

func (o operations) listRoutes(ctx context.Context, in *routesInput) (*routesOutput, error) {
	states, err := o.service.States(ctx, in.Recent)
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
	operation.IdempotencyKey
	Body struct {
		Reason string `json:"reason" minLength:"1" maxLength:"1000" pattern:"\\S" doc:"Why it is paused"`
	}
}

type resumeRouteInput struct {
	Queue string `path:"queue" maxLength:"255" doc:"Queue of the route"`
	resumeAllInput
}

type resumeAllInput struct {
	operation.IdempotencyKey
	Body *struct {
		Reason string `json:"reason,omitempty" maxLength:"1000" doc:"Why it is resumed"`
	}
}

func (in *resumeAllInput) reason() string {
	if in.Body == nil {
		return ""
	}
	return in.Body.Reason
}

type pauseOutput struct{ Body PausedRoute }

// PausedRoute is a route that was paused.
type PausedRoute struct {
	Queue  string `json:"queue"`
	Paused bool   `json:"paused" doc:"An operator has paused it"`
}

func (o operations) pauseRoute(ctx context.Context, in *pauseInput) (*pauseOutput, error) {
	decision, err := decisionAbout(ctx, "pause", in.Queue, in.Body.Reason)
	if err == nil {
		err = o.service.Pause(ctx, in.Queue, decision)
	}
	return &pauseOutput{PausedRoute{in.Queue, true}}, err
}

type resumeOutput struct{ Body ResumedRoute }

// ResumedRoute is a route that was resumed.
type ResumedRoute struct {
	Queue string `json:"queue"`
	Resumed
}

func (o operations) resumeRoute(ctx context.Context, in *resumeRouteInput) (*resumeOutput, error) {
	decision, err := decisionAbout(ctx, "resume", in.Queue, in.reason())
	out := &resumeOutput{ResumedRoute{Queue: in.Queue}}
	if err == nil {
		out.Body.Resumed, err = o.service.Resume(ctx, in.Queue, decision)
	}
	return out, err
}

type pauseAllOutput struct{ Body PausedRoutes }

// PausedRoutes are all routes, which were paused.
type PausedRoutes struct {
	Paused bool `json:"paused" doc:"An operator has paused all routes"`
}

func (o operations) pauseAll(ctx context.Context, in *pauseAllInput) (*pauseAllOutput, error) {
	decision, err := decisionAboutAll(ctx, "pause", in.Body.Reason)
	if err == nil {
		err = o.service.PauseAll(ctx, decision)
	}
	return &pauseAllOutput{PausedRoutes{true}}, err
}

type resumeAllOutput struct{ Body Resumed }

func (o operations) resumeAll(ctx context.Context, in *resumeAllInput) (*resumeAllOutput, error) {
	out := &resumeAllOutput{}
	decision, err := decisionAboutAll(ctx, "resume", in.reason())
	if err == nil {
		out.Body, err = o.service.ResumeAll(ctx, decision)
	}
	return out, err
}

// decisionAboutAll describes an action on all routes, for which a caller needs all queues.
func decisionAboutAll(ctx context.Context, action, why string) (reason.Decision, error) {
	caller := access.FromContext(ctx)
	access.Describe(ctx, access.Action{Name: action, Object: "all routes", Reason: why})
	if caller.Limited() {
		return reason.Decision{}, problem.Forbidden(caller.Name+" may not use all queues", "Ask for a token without limits, or name a route.")
	}
	return reason.Decision{Operator: caller.Name, Reason: why}, nil
}

// decisionAbout describes an action on a route, which the caller must be allowed to use.
func decisionAbout(ctx context.Context, action, queue, why string) (reason.Decision, error) {
	caller := access.FromContext(ctx)
	access.Describe(ctx, access.Action{Name: action, Object: "route " + queue, Reason: why})
	if !caller.MayQueue(queue) {
		return reason.Decision{}, problem.Forbidden(caller.Name+" may not use the queue "+queue, "Ask for a token for it.")
	}
	return reason.Decision{Operator: caller.Name, Reason: why}, nil
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

func (o operations) listQueues(ctx context.Context, in *queuesInput) (*queuesOutput, error) {
	management, err := o.service.System.Management()
	if err != nil {
		return nil, err
	}
	queues, err := management.Queues(ctx, o.service.System.VHost())
	if err != nil {
		return nil, &system.BrokerError{Err: err}
	}
	slices.SortFunc(queues, func(x, y rabbit.Queue) int { return cmp.Compare(x.Name, y.Name) })
	caller, topology := access.FromContext(ctx), o.service.System.Topology()
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

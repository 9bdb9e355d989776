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

// The operations on routes.
var (
	ListRoutes = operation.Declare[RoutesInput, RoutesOutput](operation.Operation{
		Method: http.MethodGet, Path: "/routes", ID: "listRoutes", Tag: "system", Role: access.Viewer,
		Summary: "List routes, their queue lengths and which are paused",
		Text:    "The routes of the server's configuration, then those of other processes, which RabbitMQ's management API shows.",
	})
	PauseRoute = operation.Declare[PauseInput, PauseOutput](operation.Operation{
		Method: http.MethodPost, Path: "/routes/{queue}/pause", ID: "pauseRoute", Tag: "system", Role: access.Operator,
		Summary: "Pause a route in every process",
		Text:    "Handlers finish their messages, and take no more within seconds. The route stays paused over restarts, until it is resumed.",
	})
	ResumeRoute = operation.Declare[ResumeRouteInput, ResumeOutput](operation.Operation{
		Method: http.MethodPost, Path: "/routes/{queue}/resume", ID: "resumeRoute", Tag: "system", Role: access.Operator,
		Summary: "Resume a route that an operator has paused",
	})
	PauseAllRoutes = operation.Declare[PauseAllInput, PauseAllOutput](operation.Operation{
		Method: http.MethodPost, Path: "/routes/pause", ID: "pauseAllRoutes", Tag: "system", Role: access.Operator,
		Summary: "Pause all routes in every process",
		Text:    "As for one route, also for routes that are added later. It is for callers without limits.",
	})
	ResumeAllRoutes = operation.Declare[ResumeAllInput, ResumeAllOutput](operation.Operation{
		Method: http.MethodPost, Path: "/routes/resume", ID: "resumeAllRoutes", Tag: "system", Role: access.Operator,
		Summary: "Resume all routes after a pause of all",
		Text:    "Routes that are paused themselves stay so.",
	})
	ListQueues = operation.Declare[QueuesInput, QueuesOutput](operation.Operation{
		Method: http.MethodGet, Path: "/queues", ID: "listQueues", Tag: "system", Role: access.Viewer,
		Summary: "List the queues of the virtual host with their numbers",
	})
)

// operations are the functions of the operations.
type operations struct{ service Service }

// Implement adds the operations on routes to a set.
func Implement(set *operation.Set, service Service) {
	o := operations{service}
	operation.Implement(set, ListRoutes, o.listRoutes)
	operation.Implement(set, PauseRoute, o.pauseRoute)
	operation.Implement(set, ResumeRoute, o.resumeRoute)
	operation.Implement(set, PauseAllRoutes, o.pauseAll)
	operation.Implement(set, ResumeAllRoutes, o.resumeAll)
	operation.Implement(set, ListQueues, o.listQueues)
	operation.Implement(set, ListExchanges, o.listExchanges)
	operation.Implement(set, AddRoute, o.addRoute)
	operation.Implement(set, RemoveRoute, o.removeRoute)
}

// RoutesOutput has the routes.
type RoutesOutput struct{ Body Routes }

// RoutesInput asks for the routes.
type RoutesInput struct {
	Recent bool `query:"recent" doc:"Tell how the latest messages of each route fared"`
}

// Routes are the routes that the server knows.
type Routes struct {
	Routes  []RouteState `json:"routes" nullable:"false"`
	Problem string       `json:"problem,omitempty" doc:"Why the store does not tell which routes are paused, and how their messages fared"`
}

func (o operations) listRoutes(ctx context.Context, in *RoutesInput) (*RoutesOutput, error) {
	states, err := o.service.States(ctx, in.Recent)
	out := &RoutesOutput{Routes{Routes: []RouteState{}}}
	var away *eventstore.Error
	if err != nil && (states == nil || !errors.As(err, &away)) {
		return nil, err
	} else if err != nil {
		out.Body.Problem = err.Error()
	}
	caller := access.FromContext(ctx)
	for _, state := range states {
		if caller.MayQueue(state.Queue) {
			out.Body.Routes = append(out.Body.Routes, state)
		}
	}
	return out, nil
}

// PauseInput names a route to pause.
type PauseInput struct {
	Queue string `path:"queue" maxLength:"255" doc:"Queue of the route"`
	PauseAllInput
}

// PauseAllInput has the reason to pause all routes.
type PauseAllInput struct {
	operation.IdempotencyKey
	Body RoutesRequest
}

// RoutesRequest says why routes are paused or resumed, and how many.
type RoutesRequest struct{ operation.Bounds }

// ResumeRouteInput names a route to resume.
type ResumeRouteInput struct {
	Queue string `path:"queue" maxLength:"255" doc:"Queue of the route"`
	ResumeAllInput
}

// ResumeAllInput has the reason to resume all routes.
type ResumeAllInput struct {
	operation.IdempotencyKey
	Body *RoutesRequest
}

func (in *ResumeAllInput) bounds() operation.Bounds {
	if in.Body == nil {
		return operation.Bounds{}
	}
	return in.Body.Bounds
}

// RoutesFound are the routes that a request concerns, if it is a dry run or expects a number.
type RoutesFound struct {
	Matched *int     `json:"matched,omitempty" doc:"Number of routes, of a dry run and a request that expects one"`
	Routes  []string `json:"routes,omitempty" nullable:"false" doc:"Their queues"`
}

// PauseOutput has the paused route.
type PauseOutput struct{ Body PausedRoute }

// PausedRoute is a route that was paused.
type PausedRoute struct {
	Queue  string `json:"queue"`
	Paused bool   `json:"paused" doc:"This request has paused it"`
	RoutesFound
}

func (o operations) pauseRoute(ctx context.Context, in *PauseInput) (*PauseOutput, error) {
	out := &PauseOutput{PausedRoute{Queue: in.Queue}}
	decision, err := decisionAbout(ctx, "pause", in.Queue, in.Body.Bounds)
	if err == nil {
		err = in.Body.NeedReason()
	}
	if err == nil {
		out.Body.RoutesFound, err = o.found(in.Body.Bounds, func() ([]string, error) {
			_, err := o.service.routeState(ctx, in.Queue)
			return []string{in.Queue}, err
		})
	}
	if err == nil && !in.Body.DryRun {
		err = o.service.Pause(ctx, in.Queue, decision)
		out.Body.Paused = true
	}
	return out, err
}

// found returns the routes that a request concerns. One that neither is a dry run nor expects a number
// needs no list, for which the store must be there.
func (operations) found(b operation.Bounds, list func() ([]string, error)) (RoutesFound, error) {
	if !b.DryRun && b.Expect == nil {
		return RoutesFound{}, nil
	}
	queues, err := list()
	if err != nil {
		return RoutesFound{}, err
	}
	matched := len(queues)
	return RoutesFound{&matched, queues}, b.Check(matched, "route")
}

// ResumeOutput has the resumed route.
type ResumeOutput struct{ Body ResumedRoute }

// ResumedRoute is a route that was resumed.
type ResumedRoute struct {
	Queue string `json:"queue"`
	Resumed
	RoutesFound
}

func (o operations) resumeRoute(ctx context.Context, in *ResumeRouteInput) (*ResumeOutput, error) {
	bounds := in.bounds()
	decision, err := decisionAbout(ctx, "resume", in.Queue, bounds)
	out := &ResumeOutput{ResumedRoute{Queue: in.Queue}}
	if err == nil {
		out.Body.RoutesFound, err = o.found(bounds, func() ([]string, error) {
			resumed, err := o.service.resumable(ctx, in.Queue)
			if !resumed.Changed {
				return nil, err
			}
			return []string{in.Queue}, err
		})
	}
	if err == nil && !bounds.DryRun {
		out.Body.Resumed, err = o.service.Resume(ctx, in.Queue, decision)
	}
	return out, err
}

// PauseAllOutput says that all routes are paused.
type PauseAllOutput struct{ Body PausedRoutes }

// PausedRoutes are all routes, which were paused.
type PausedRoutes struct {
	Paused bool `json:"paused" doc:"This request has paused all routes"`
	RoutesFound
}

func (o operations) pauseAll(ctx context.Context, in *PauseAllInput) (*PauseAllOutput, error) {
	out := &PauseAllOutput{}
	decision, err := decisionAboutAll(ctx, "pause", in.Body.Bounds)
	if err == nil {
		err = in.Body.NeedReason()
	}
	if err == nil {
		out.Body.RoutesFound, err = o.found(in.Body.Bounds, func() ([]string, error) {
			return o.service.queues(ctx, func(s RouteState) bool { return !s.Foreign && !s.WithAll })
		})
	}
	if err == nil && !in.Body.DryRun {
		err = o.service.PauseAll(ctx, decision)
		out.Body.Paused = true
	}
	return out, err
}

// ResumeAllOutput has the changes of a resume of all routes.
type ResumeAllOutput struct{ Body ResumedRoutes }

// ResumedRoutes are all routes, which were resumed.
type ResumedRoutes struct {
	Resumed
	RoutesFound
}

func (o operations) resumeAll(ctx context.Context, in *ResumeAllInput) (*ResumeAllOutput, error) {
	out, bounds := &ResumeAllOutput{}, in.bounds()
	decision, err := decisionAboutAll(ctx, "resume", bounds)
	if err == nil {
		out.Body.RoutesFound, err = o.found(bounds, func() ([]string, error) {
			return o.service.queues(ctx, func(s RouteState) bool { return !s.Foreign && s.WithAll })
		})
	}
	if err == nil && !bounds.DryRun {
		out.Body.Resumed, err = o.service.ResumeAll(ctx, decision)
	}
	return out, err
}

// decisionAboutAll describes an action on all routes, for which a caller needs all queues.
func decisionAboutAll(ctx context.Context, action string, b operation.Bounds) (reason.Decision, error) {
	caller := access.FromContext(ctx)
	b.Describe(ctx, action, "all routes")
	if caller.Limited() {
		return reason.Decision{}, problem.Forbidden(caller.Name+" may not use all queues", "Ask for a token without limits, or name a route.")
	}
	return reason.Decision{Operator: caller.Name, Reason: b.Reason}, nil
}

// decisionAbout describes an action on a route, which the caller must be allowed to use.
func decisionAbout(ctx context.Context, action, queue string, b operation.Bounds) (reason.Decision, error) {
	caller := access.FromContext(ctx)
	b.Describe(ctx, action, "route "+queue)
	if !caller.MayQueue(queue) {
		return reason.Decision{}, problem.NotAllowed(caller, "queue", queue)
	}
	return reason.Decision{Operator: caller.Name, Reason: b.Reason}, nil
}

// QueuesInput asks for a page of queues.
type QueuesInput struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"10000" default:"1000" doc:"Maximum number of queues"`
	Cursor string `query:"cursor" maxLength:"500" doc:"Cursor of the page before"`
}

// QueuesOutput has a page of queues.
type QueuesOutput struct{ Body QueuePage }

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

func (o operations) listQueues(ctx context.Context, in *QueuesInput) (*QueuesOutput, error) {
	after, err := operation.ParseCursor[[]byte](in.Cursor)
	if err != nil {
		return nil, err
	}
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
		if !caller.MayQueue(q.Name) || in.Cursor != "" && q.Name <= string(after) {
			continue
		}
		if len(page.Queues) == in.Limit {
			page.Cursor = operation.FormatCursor([]byte(page.Queues[in.Limit-1].Name))
			break
		}
		page.Queues = append(page.Queues, Queue{
			q.Name, q.Type, topology.Owns(q.Name), q.Available(), q.Messages, q.Ready, q.Unacked, q.Consumers, q.Stats.Published, q.Stats.Acknowledged,
		})
	}
	return &QueuesOutput{page}, nil
}

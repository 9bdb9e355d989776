package routes

import (
	"context"
	"slices"

	"github.com/watershipmq/watership/internal/render/reason"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/topology/pause"
)

// Pause pauses the route of a queue in all processes, until Resume. They finish
// the messages that their handlers have. The event of a route that is paused again has the
// new reason.
func (s Service) Pause(ctx context.Context, queue string, d reason.Decision) error {
	control, err := s.pauseControl(ctx, reason.Need(d.Reason))
	if err != nil {
		return err
	}
	if _, err := s.routeState(ctx, queue); err != nil {
		return err
	}
	return control.Pause(ctx, queue, d.Text())
}

// PauseAll pauses all routes in all processes, also those that do not exist yet, until
// ResumeAll.
func (s Service) PauseAll(ctx context.Context, d reason.Decision) error {
	control, err := s.pauseControl(ctx, reason.Need(d.Reason))
	if err != nil {
		return err
	}
	return control.Pause(ctx, pause.All, d.Text())
}

// Resumed has the changes of a resume.
type Resumed struct {
	Changed bool `json:"changed" doc:"false: no operator had paused it"`
	WithAll bool `json:"paused" doc:"It is still paused by an operator, with all routes"`
}

// ResumeAll ends PauseAll. Routes that are paused themselves stay so.
func (s Service) ResumeAll(ctx context.Context, d reason.Decision) (r Resumed, err error) {
	control, err := s.pauseControl(ctx, reason.Check(d.Reason))
	if err == nil {
		r.Changed, err = pause.Paused(ctx, control.Publisher, s.System.Topology(), pause.All)
	}
	if err != nil || !r.Changed {
		return r, err
	}
	return r, control.Resume(ctx, pause.All, d.Text())
}

// Resume resumes a route that an operator has paused.
func (s Service) Resume(ctx context.Context, queue string, d reason.Decision) (Resumed, error) {
	control, err := s.pauseControl(ctx, reason.Check(d.Reason))
	if err != nil {
		return Resumed{}, err
	}
	resumed, err := s.resumable(ctx, queue)
	if err != nil || !resumed.Changed {
		return Resumed{}, err
	}
	return resumed, control.Resume(ctx, queue, d.Text())
}

// resumable returns the routes that a resume of a queue would change.
func (s Service) resumable(ctx context.Context, queue string) (Resumed, error) {
	state, err := s.routeState(ctx, queue)
	switch {
	case err != nil:
		return Resumed{}, err
	case !state.ByHand && state.WithAll:
		return Resumed{}, system.InputErrorf("all routes are paused, the one of queue %s among them: resume all", queue)
	case !state.ByHand && state.State == "paused":
		return Resumed{}, system.InputErrorf("the circuit breaker has paused the route of queue %s: it resumes by itself when a message succeeds", queue)
	case !state.ByHand:
		return Resumed{}, nil
	}
	return Resumed{true, state.WithAll}, nil
}

// queues returns the queues of some routes.
func (s Service) queues(ctx context.Context, of func(RouteState) bool) ([]string, error) {
	states, err := s.States(ctx, false)
	if states == nil && err != nil {
		return nil, err
	}
	var queues []string
	for _, state := range states {
		if of(state) {
			queues = append(queues, state.Queue)
		}
	}
	return queues, nil // the store is not needed
}

// Control returns what pauses and resumes routes, and holds and releases their receivers.
func (s Service) Control(ctx context.Context) (pause.Control, error) { return s.pauseControl(ctx, nil) }

// pauseControl returns what pauses and resumes routes, unless there is a mistake in the reason.
func (s Service) pauseControl(ctx context.Context, mistake error) (pause.Control, error) {
	if mistake != nil {
		return pause.Control{}, system.InputError{Err: mistake}
	}
	conn, err := s.System.Connection()
	if err != nil {
		return pause.Control{}, err
	}
	publisher, err := s.returningPublisher(ctx)
	return pause.Control{Topology: s.System.Topology(), Connection: conn, Publisher: publisher, Sign: s.System.Sign}, err
}

// returningPublisher returns the System's publisher for questions that RabbitMQ answers by
// returning them.
func (s Service) returningPublisher(ctx context.Context) (topology.ReturningPublisher, error) {
	publisher, err := s.System.Publisher(ctx)
	if err != nil {
		return topology.ReturningPublisher{}, err
	}
	conn, err := s.System.Connection()
	return topology.ReturningPublisher{Publisher: publisher, Reconciler: topology.Reconciler{
		Conn: conn, Config: topology.Config{Topology: s.System.Topology()}, SelfBindings: &topology.SelfBindings{},
	}}, err
}

// routeState returns the state of a route that can be paused.
func (s Service) routeState(ctx context.Context, queue string) (RouteState, error) {
	states, err := s.States(ctx, false)
	i := slices.IndexFunc(states, func(state RouteState) bool { return state.Queue == queue })
	switch {
	case i >= 0 && states[i].Foreign && !states[i].ByHand:
		return RouteState{}, system.InputErrorf("another program consumes queue %s: Watership cannot pause it", queue)
	case i >= 0:
		return states[i], nil // the store is not needed
	case err != nil:
		return RouteState{}, err
	}
	return RouteState{}, system.InputErrorf("no route has the queue %s", queue)
}

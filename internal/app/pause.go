package app

import (
	"context"
	"slices"

	"github.com/watershipmq/watership/internal/pause"
	"github.com/watershipmq/watership/internal/reason"
	"github.com/watershipmq/watership/internal/routestate"
	"github.com/watershipmq/watership/internal/topology"
)

// PauseRoute pauses the route of a queue in all processes, until ResumeRoute. They finish
// the messages that their handlers have. The event of a route that is paused again has the
// new reason.
func (a *App) PauseRoute(ctx context.Context, queue string, d Decision) error {
	control, err := a.pauseControl(ctx, reason.Need(d.Reason))
	if err != nil {
		return err
	}
	if _, err := a.routeState(ctx, queue); err != nil {
		return err
	}
	return control.Pause(ctx, queue, d.text())
}

// PauseAll pauses all routes in all processes, also those that do not exist yet, until
// ResumeAll.
func (a *App) PauseAll(ctx context.Context, d Decision) error {
	control, err := a.pauseControl(ctx, reason.Need(d.Reason))
	if err != nil {
		return err
	}
	return control.Pause(ctx, pause.All, d.text())
}

// Resumed tells what a resume has changed.
type Resumed struct {
	Changed bool `json:"changed" doc:"false: no operator had paused it"`
	WithAll bool `json:"paused" doc:"It is still paused by an operator, with all routes"`
}

// ResumeAll ends PauseAll. Routes that are paused themselves stay so.
func (a *App) ResumeAll(ctx context.Context, d Decision) (r Resumed, err error) {
	control, err := a.pauseControl(ctx, reason.Check(d.Reason))
	if err == nil {
		r.Changed, err = pause.Paused(ctx, control.Publisher, a.topology, pause.All)
	}
	if err != nil || !r.Changed {
		return r, err
	}
	return r, control.Resume(ctx, pause.All, d.text())
}

// ResumeRoute resumes a route that an operator has paused.
func (a *App) ResumeRoute(ctx context.Context, queue string, d Decision) (Resumed, error) {
	control, err := a.pauseControl(ctx, reason.Check(d.Reason))
	if err != nil {
		return Resumed{}, err
	}
	state, err := a.routeState(ctx, queue)
	switch {
	case err != nil:
		return Resumed{}, err
	case !state.ByHand && state.WithAll:
		return Resumed{}, inputErrorf("all routes are paused, the one of queue %s among them: resume all", queue)
	case !state.ByHand && state.State == "paused":
		return Resumed{}, inputErrorf("the circuit breaker has paused the route of queue %s: it resumes by itself when a message succeeds", queue)
	case !state.ByHand:
		return Resumed{}, nil
	}
	return Resumed{true, state.WithAll}, control.Resume(ctx, queue, d.text())
}

// pauseControl returns what pauses and resumes routes, unless there is a mistake in the reason.
func (a *App) pauseControl(ctx context.Context, mistake error) (pause.Control, error) {
	if mistake != nil {
		return pause.Control{}, InputError{mistake}
	}
	conn, err := a.Connection()
	if err != nil {
		return pause.Control{}, err
	}
	publisher, err := a.returningPublisher(ctx)
	return pause.Control{Topology: a.topology, Connection: conn, Publisher: publisher, Sign: a.Sign}, err
}

// returningPublisher returns the App's publisher for questions that RabbitMQ answers by
// returning them.
func (a *App) returningPublisher(ctx context.Context) (topology.ReturningPublisher, error) {
	publisher, err := a.Publisher(ctx)
	if err != nil {
		return topology.ReturningPublisher{}, err
	}
	conn, err := a.Connection()
	return topology.ReturningPublisher{Publisher: publisher, Reconciler: topology.Reconciler{
		Conn: conn, Config: topology.Config{Topology: a.topology}, SelfBindings: &topology.SelfBindings{},
	}}, err
}

// routeState returns the state of a route that can be paused.
func (a *App) routeState(ctx context.Context, queue string) (routestate.State, error) {
	states, err := a.RouteStates(ctx, false)
	i := slices.IndexFunc(states, func(s routestate.State) bool { return s.Queue == queue })
	switch {
	case i >= 0 && states[i].Foreign && !states[i].ByHand:
		return routestate.State{}, inputErrorf("another program consumes queue %s: Watership cannot pause it", queue)
	case i >= 0:
		return states[i], nil // the store is not needed
	case err != nil:
		return routestate.State{}, err
	}
	return routestate.State{}, inputErrorf("no route has the queue %s", queue)
}

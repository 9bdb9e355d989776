package app

import (
	"context"
	"slices"

	"github.com/watershipmq/watership/internal/pause"
	"github.com/watershipmq/watership/internal/routestate"
)

// PauseRoute pauses the route of a queue in all processes, until ResumeRoute. They finish
// the messages that their handlers have. The event of a route that is paused again has the
// new reason.
func (a *App) PauseRoute(ctx context.Context, queue string, d Decision) error {
	if _, err := a.routeState(ctx, queue); err != nil {
		return err
	}
	control, err := a.pauseControl(ctx)
	if err != nil {
		return err
	}
	return control.Pause(ctx, queue, d.text())
}

// ResumeRoute resumes a route that an operator has paused.
func (a *App) ResumeRoute(ctx context.Context, queue string, d Decision) error {
	state, err := a.routeState(ctx, queue)
	switch {
	case err != nil:
		return err
	case !state.ByHand && state.State == "paused":
		return inputErrorf("the circuit breaker has paused the route of queue %s: it resumes by itself when a message succeeds", queue)
	case !state.ByHand:
		return nil
	}
	control, err := a.pauseControl(ctx)
	if err != nil {
		return err
	}
	return control.Resume(ctx, queue, d.text())
}

func (a *App) pauseControl(ctx context.Context) (pause.Control, error) {
	conn, err := a.Connection()
	if err != nil {
		return pause.Control{}, err
	}
	publisher, err := a.Publisher(ctx)
	return pause.Control{Topology: a.topology, Connection: conn, Publisher: publisher, Sign: a.Sign}, err
}

// routeState returns the state of a route that can be paused.
func (a *App) routeState(ctx context.Context, queue string) (routestate.State, error) {
	for _, route := range a.configured().Routes {
		if route.Queue == queue && !route.HasHandler() {
			return routestate.State{}, inputErrorf("another program consumes queue %s: Watership cannot pause it", queue)
		}
	}
	states, err := a.RouteStates(ctx, false)
	i := slices.IndexFunc(states, func(s routestate.State) bool { return s.Queue == queue })
	switch {
	case i >= 0:
		return states[i], nil // the store is not needed
	case err != nil:
		return routestate.State{}, err
	}
	return routestate.State{}, inputErrorf("no route has the queue %s", queue)
}

package app

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/doctor"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

// RouteState is the state of a route and its queue.
type RouteState struct {
	Queue     string     `json:"queue"`
	State     string     `json:"state"` // running, paused, no consumer or no queue
	Messages  int        `json:"messages"`
	Consumers int        `json:"consumers"`
	Since     *time.Time `json:"since,omitempty"`
	Error     string     `json:"error,omitempty"`
}

// RouteStates returns the states of the configured routes, then of other paused routes.
// It asks the broker for the queues, and the store for the paused routes.
func (a *App) RouteStates(ctx context.Context) ([]RouteState, error) {
	ctx, cancel := WithTimeout(ctx)
	defer cancel()
	conn, err := a.Connection()
	if err != nil {
		return nil, err
	}
	events, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	paused, err := a.pausedRoutes(ctx, events)
	if err != nil {
		return nil, err
	}
	var states []RouteState
	for _, queue := range a.routeQueues(paused) {
		state, err := routeState(ctx, conn, queue)
		if err != nil {
			return nil, err
		}
		if e, is := paused[queue]; is {
			state.State, state.Since, state.Error = "paused", &e.FirstFailed, e.Failure.Message
		}
		states = append(states, state)
	}
	return states, nil
}

// routeQueues returns the queues of the configured routes, then of other paused routes.
func (a *App) routeQueues(paused map[string]schemas.Event) []string {
	var queues []string
	for _, route := range a.settings.Routes {
		queues = append(queues, route.Queue)
	}
	for _, queue := range slices.Sorted(maps.Keys(paused)) {
		if !slices.Contains(queues, queue) {
			queues = append(queues, queue)
		}
	}
	return queues
}

func routeState(ctx context.Context, conn *rabbit.Connection, queue string) (RouteState, error) {
	answer, err := queueState(ctx, conn, queue)
	var refused *amqp091.Error
	if errors.As(err, &refused) && refused.Code == amqp091.NotFound {
		return RouteState{Queue: queue, State: "no queue"}, nil
	}
	state := RouteState{Queue: queue, State: "running", Messages: answer.Messages, Consumers: answer.Consumers}
	if answer.Consumers == 0 {
		state.State = "no consumer"
	}
	return state, err
}

// maxPausedAge bounds the age of a `paused` event: a route that is still paused repeats it.
// A route whose process has ended does not.
const maxPausedAge = pipeline.PausedEvery + 5*time.Minute

// pausedRoutes returns the newest event of each paused route, by queue.
func (a *App) pausedRoutes(ctx context.Context, events doctor.Events) (map[string]schemas.Event, error) {
	now := time.Now()
	recent, err := timeBound(kql.GreaterOrEqual, now.Add(-maxPausedAge).UTC().Format(time.RFC3339), now)
	if err != nil {
		return nil, err
	}
	query := kql.And{
		kql.Or{kql.FieldIs("event.action", string(schemas.Paused)), kql.FieldIs("event.action", string(schemas.Resumed))},
		kql.FieldIs("watership.vhost", a.vhost), recent,
	}
	if a.settings.Source != "" {
		query = append(query, kql.FieldIs("watership.source", a.settings.Source))
	}
	newest := map[string]schemas.Event{}
	for event, err := range events.Events(ctx, eventstore.Selection{Query: query, WithoutBody: true}) {
		if err != nil {
			return nil, err
		}
		if _, known := newest[event.Queue]; !known {
			newest[event.Queue] = event
		}
	}
	maps.DeleteFunc(newest, func(_ string, e schemas.Event) bool { return e.RecordedAction() != schemas.Paused })
	return newest, nil
}

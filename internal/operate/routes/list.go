package routes

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/watershipmq/watership/internal/operate/routes/queuepolicy"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/topology/pause"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// RouteState is the state of a route and its queue.
type RouteState struct {
	Queue     string     `json:"queue"`
	State     string     `json:"state" enum:"running,paused,no consumer,no queue"`
	Messages  int        `json:"messages" doc:"Messages that are ready"`
	InFlight  *int64     `json:"in_flight,omitempty" doc:"Messages that consumers have not acknowledged; none: not known"`
	Consumers int        `json:"consumers"`
	Foreign   bool       `json:"foreign,omitempty" doc:"Only other programs consume the queue, so Watership cannot pause it"`
	Processes []string   `json:"processes,omitempty" nullable:"false" doc:"Processes of Watership that handle the route, as HOST:PID"`
	Since     *time.Time `json:"since,omitempty" doc:"When it was paused"`
	Error     string     `json:"error,omitempty" doc:"Why it was paused: the reason of an operator, or the error of its messages"`
	ByHand    bool       `json:"paused_by_hand,omitempty" doc:"An operator has paused it, and has to resume it"`
	WithAll   bool       `json:"paused_with_all,omitempty" doc:"An operator has paused all routes, and has to resume all"`
	Retry     []Schedule `json:"retry,omitempty" nullable:"false" doc:"Retry policy for errors of each class; none: the server does not know it"`
	Schema    bool       `json:"schema,omitempty" doc:"The configuration names a JSON Schema for its bodies"`
	Recent    *Recent    `json:"recent,omitempty" doc:"How the latest messages fared, on request"`
}

// Config describes a RabbitMQ system and its store.
type Config struct {
	Connection *rabbit.Connection
	Publisher  pause.Publisher    // on Connection
	Management *rabbit.Management // finds the routes of other processes; nil: they are not known
	Topology   schemas.Topology
	VHost      string
	Source     string // of events; "": any
	Events     Events
	Routes     []pipeline.Route
	Foreign    []string      // queues of Routes that other programs consume
	Checked    []string      // queues of routes that have a schema
	Default    *retry.Policy // of routes that have none
}

// List returns the states of the configured routes, then of other queues: those that are bound
// as the queues of routes are, that have the policy of package queuepolicy, or that are paused.
// An error of the store leaves the states as RabbitMQ has them.
func (cfg Config) List(ctx context.Context, recent bool) ([]RouteState, error) {
	paused, problem := cfg.Paused(ctx)
	answers := cfg.askManagement(ctx)
	known := map[string]*pipeline.Route{}
	for _, route := range cfg.Routes {
		known[route.Queue] = &route
	}
	queues := cfg.queues(slices.AppendSeq(slices.Concat(answers.routes, answers.added), maps.Keys(paused)))
	held, err := cfg.pausedByHand(ctx, append(slices.Clone(queues), pause.All))
	if err != nil {
		return nil, err
	}
	if problem == nil {
		problem = cfg.addReasons(ctx, held)
	}
	now := time.Now().Truncate(time.Minute)
	all, allPaused := held[pause.All]
	var states []RouteState
	for _, queue := range queues {
		state, err := cfg.queueState(ctx, queue, answers)
		if err != nil {
			return nil, err
		}
		state.Processes, state.Schema = answers.processes[queue], slices.Contains(cfg.Checked, queue)
		if counted, known := answers.queues[queue]; known {
			state.InFlight = &counted.Unacked
		}
		if e, is := paused[queue]; is {
			state.State, state.Since, state.Error = "paused", &e.FirstFailed, e.Failure.Message
		}
		added := slices.Contains(answers.added, queue) && len(state.Processes) == 0 && known[queue] == nil
		state.Foreign = added || slices.Contains(cfg.Foreign, queue)
		if allPaused && !state.Foreign {
			state.pausedBy(all)
			state.WithAll = true
		}
		if e, is := held[queue]; is {
			state.pausedBy(e)
			state.ByHand = true
		}
		if route := known[queue]; route != nil {
			state.Retry = schedules(cmp.Or(route.Policy, cfg.Default), now)
		}
		states = append(states, state)
	}
	if recent && problem == nil {
		problem = cfg.addRecent(ctx, states)
	}
	return states, problem
}

// pausedBy sets the state of a route that an operator has paused, from its event.
func (s *RouteState) pausedBy(e schemas.Event) {
	s.State, s.Since, s.Error = "paused", nil, e.Failure.Message
	if !e.Time.IsZero() {
		s.Since = &e.Time
	}
}

// PauseText says why a paused route is paused. Since has the time, which each face shows in the
// zone of its reader.
func (s RouteState) PauseText() string {
	text := "the route of queue " + s.Queue + " is paused"
	switch {
	case s.ByHand:
		text += " by hand"
	case s.WithAll:
		text += " with all routes"
	}
	if s.Error != "" {
		text += ": " + s.Error
	}
	return text
}

// queues returns the queues of the configured routes, then of the others.
func (cfg Config) queues(others []string) []string {
	var queues []string
	for _, route := range cfg.Routes {
		queues = append(queues, route.Queue)
	}
	slices.Sort(others)
	for _, queue := range slices.Compact(others) {
		if !slices.Contains(queues, queue) {
			queues = append(queues, queue)
		}
	}
	return queues
}

// queueState asks the queue. If its leader may be silent, the counts come from the
// management API, which are some seconds old.
func (cfg Config) queueState(ctx context.Context, queue string, answers management) (RouteState, error) {
	answer, found, err := cfg.Connection.QueueState(ctx, queue)
	if err == nil && !found {
		return RouteState{Queue: queue, State: "no queue"}, nil
	}
	if counted, known := answers.queues[queue]; answer.Uncertain && known {
		answer.Messages, answer.Consumers = int(counted.Ready), counted.Consumers
	}
	state := RouteState{Queue: queue, State: "running", Messages: answer.Messages, Consumers: answer.Consumers}
	if answer.Consumers == 0 {
		state.State = "no consumer"
	}
	return state, err
}

// management holds the answers of the management API about the queues of a vhost.
type management struct {
	routes    []string // queues of the routes of all processes
	added     []string // queues of other programs, which have the policy of package queuepolicy
	processes map[string][]string
	queues    map[string]rabbit.Queue
}

// askManagement returns the queues of all routes, the processes that handle each of them,
// and the counts of queues. Without the management API, or with
// a login that may not use it, it returns nothing.
func (cfg Config) askManagement(ctx context.Context) management {
	m := management{processes: map[string][]string{}, queues: map[string]rabbit.Queue{}}
	if cfg.Management == nil {
		return m
	}
	bindings, _ := cfg.Management.Bindings(ctx, cfg.VHost, cfg.Topology.Direct())
	returns, _ := cfg.Management.Bindings(ctx, cfg.VHost, cfg.Topology.Return()) // of routes without a handler
	for _, b := range bindings {
		if b.DestinationType == "queue" && b.Destination == b.RoutingKey && !cfg.Topology.Owns(b.Destination) {
			m.routes = append(m.routes, b.Destination)
		}
	}
	m.routes = slices.DeleteFunc(m.routes, func(queue string) bool { // of parked copies
		isParking := func(route string) bool { return cfg.Topology.Parking(route) == queue }
		return slices.ContainsFunc(slices.Concat(bindings, returns), func(b rabbit.Binding) bool { return isParking(b.Destination) }) ||
			slices.ContainsFunc(cfg.Routes, func(r pipeline.Route) bool { return isParking(r.Queue) })
	})
	consumers, _ := cfg.Management.Consumers(ctx, cfg.VHost)
	for _, consumer := range consumers {
		name := consumer.Queue.Name
		if c, ours := role.ParseTag(consumer.Tag); ours && c.Role == role.Routes && !slices.Contains(m.processes[name], c.Process) {
			m.processes[name] = append(m.processes[name], c.Process)
		}
	}
	queues, _ := cfg.Management.Queues(ctx, cfg.VHost)
	for _, queue := range queues {
		m.queues[queue.Name] = queue
		if queue.Policy == queuepolicy.Name(cfg.Topology, queue.Name) {
			m.added = append(m.added, queue.Name)
		}
	}
	return m
}

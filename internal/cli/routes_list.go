package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/doctor"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
)

func newRoutes(from *settings) *cobra.Command {
	var format output
	cmd := &cobra.Command{
		Use:   "routes",
		Short: "List routes, their queue lengths and which are paused",
		Long: `List the configured routes, and routes of other services that are paused. A route is
paused during an outage of its service, when all its messages fail. It then tries
single messages until one succeeds.`,
		Example: "  watership routes\n  watership routes -o json",
		Args:    exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := from.system(streamsOf(cmd))
			if err != nil {
				return err
			}
			return s.listRoutes(cmd.Context(), list{streamsOf(cmd), from.screen(cmd.OutOrStdout())}, format)
		},
	}
	format.addFlag(cmd, "table", "json")
	return cmd
}

// routeState is the state of a route as `routes` lists it.
type routeState struct {
	Queue     string     `json:"queue"`
	State     string     `json:"state"` // running, paused, no consumer or no queue
	Messages  int        `json:"messages"`
	Consumers int        `json:"consumers"`
	Since     *time.Time `json:"since,omitempty"`
	Error     string     `json:"error,omitempty"`
}

func (s system) listRoutes(ctx context.Context, to list, format output) error {
	states, err := s.routeStates(ctx)
	if err != nil {
		return err
	}
	if format.is("json") {
		text, err := json.MarshalIndent(states, "", "  ")
		if err != nil {
			return err
		}
		return to.say("%s", text)
	}
	if len(states) == 0 {
		return to.say("the configuration has no routes, and none of another service is paused")
	}
	t := terminal.NewTable(to.Out, to.screen,
		terminal.Column{Title: "QUEUE"}, terminal.Column{Title: "STATE", Fixed: true, Colours: map[string]terminal.Colour{"paused": terminal.Red, "no consumer": terminal.Yellow, "no queue": terminal.Red, "running": terminal.Green}},
		terminal.Column{Title: "MESSAGES", Fixed: true, Right: true}, terminal.Column{Title: "CONSUMERS", Fixed: true, Right: true, Spare: 1},
		terminal.Column{Title: "SINCE", Fixed: true}, terminal.Column{Title: "ERROR", Spare: 2})
	for _, r := range states {
		since := ""
		if r.Since != nil {
			since = terminal.Time(*r.Since)
		}
		if err := t.Row(r.Queue, r.State, fmt.Sprint(r.Messages), fmt.Sprint(r.Consumers), since, r.Error); err != nil {
			return err
		}
	}
	return t.Flush()
}

// routeStates asks the broker for the queues, and the store for the paused routes.
func (s system) routeStates(ctx context.Context) (states []routeState, err error) {
	ctx, cancel := bounded(ctx)
	defer cancel()
	conn, err := s.connect("routes", false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	store, err := s.store(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	paused, err := s.pausedRoutes(ctx, store)
	if err != nil {
		return nil, err
	}
	for _, queue := range s.routeQueues(paused) {
		state, err := stateOfRoute(ctx, conn, queue)
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

// routeQueues returns the queues of the configured routes, then of other paused
// routes.
func (s system) routeQueues(paused map[string]schemas.Event) []string {
	var queues []string
	for _, route := range s.pipeline().Routes {
		queues = append(queues, route.Queue)
	}
	for _, queue := range slices.Sorted(maps.Keys(paused)) {
		if !slices.Contains(queues, queue) {
			queues = append(queues, queue)
		}
	}
	return queues
}

func stateOfRoute(ctx context.Context, conn *rabbit.Connection, queue string) (routeState, error) {
	there, err := look(ctx, conn, queue)
	var refused *amqp091.Error
	if errors.As(err, &refused) && refused.Code == amqp091.NotFound {
		return routeState{Queue: queue, State: "no queue"}, nil
	}
	state := routeState{Queue: queue, State: "running", Messages: there.Messages, Consumers: there.Consumers}
	if there.Consumers == 0 {
		state.State = "no consumer"
	}
	return state, err
}

// saidRecently bounds the age of a paused event: a route that is still paused repeats
// it. A route whose process has ended does not.
const saidRecently = pipeline.PausedEvery + 5*time.Minute

// pausedRoutes returns the newest event of each paused route, by queue.
func (s system) pausedRoutes(ctx context.Context, store doctor.Events) (map[string]schemas.Event, error) {
	recent, err := timeBound(kql.GreaterOrEqual, time.Now().Add(-saidRecently).UTC().Format(time.RFC3339))
	if err != nil {
		return nil, err
	}
	which := kql.And{
		kql.Or{is("event.action", string(schemas.Paused)), is("event.action", string(schemas.Resumed))},
		is("watership.vhost", s.vhost), recent,
	}
	if s.cfg.Source != "" {
		which = append(which, is("watership.source", s.cfg.Source))
	}
	newest := map[string]schemas.Event{}
	for event, err := range store.Events(ctx, eventstore.Selection{Query: which, WithoutBody: true}) {
		if err != nil {
			return nil, err
		}
		if _, known := newest[event.Queue]; !known {
			newest[event.Queue] = event
		}
	}
	maps.DeleteFunc(newest, func(_ string, e schemas.Event) bool { return e.Action != schemas.Paused })
	return newest, nil
}

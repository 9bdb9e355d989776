package app

import (
	"context"
	"errors"
	"fmt"

	"github.com/ThreeDotsLabs/watermill"
	amqp091 "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/directdelivery"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/replayer"
)

// Replayer returns a Replayer that lists, runs and cancels jobs.
func (a *App) Replayer(ctx context.Context) (*replayer.Replayer, error) {
	cfg, err := a.replayerConfig(ctx)
	if err != nil {
		return nil, err
	}
	return replayer.New(cfg), nil
}

// Planner returns a Replayer that plans jobs for a target, too. Unless unchecked is
// set, plans find out which messages would reach no queue.
func (a *App) Planner(ctx context.Context, target replayer.Target, unchecked bool) (*replayer.Replayer, error) {
	if a.running.missing != nil {
		return nil, a.running.missing
	}
	cfg, err := a.replayerConfig(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := a.Connection()
	if err != nil {
		return nil, err
	}
	cfg.Log = func(ctx context.Context) (replayer.Log, error) { return a.log(ctx, conn) }
	if !unchecked {
		if cfg.Routes, err = a.routes(ctx, conn, target); err != nil {
			return nil, err
		}
	}
	return replayer.New(cfg), nil
}

func (a *App) replayerConfig(ctx context.Context) (replayer.Config, error) {
	events, err := a.Store(ctx)
	if err != nil {
		return replayer.Config{}, err
	}
	cfg := replayer.Config{
		Store: events, Jobs: events, Topology: a.topology, Login: a.login, NewID: watermill.NewULID, DirectDelivery: a.directDelivery,
		Retention: a.settings.Store.Retention.Failures,
		Broker:    a.brokerConfig("replay"), StateKeys: a.secrets.stateKeys,
	}
	cfg.Broker.Logger = a.logger
	return cfg, nil
}

// log returns the state of the log queue; Unknown if the login may not see the queue.
func (a *App) log(ctx context.Context, conn *rabbit.Connection) (replayer.Log, error) {
	ctx, cancel := WithTimeout(ctx)
	defer cancel()
	queue, _, err := conn.QueueState(ctx, a.topology.Log())
	var refused *amqp091.Error
	if errors.As(err, &refused) && refused.Code == amqp091.AccessRefused {
		return replayer.Log{Unknown: true}, nil
	}
	return replayer.Log{Events: queue.Messages, Consumers: queue.Consumers, Unknown: queue.Locked}, err
}

func (a *App) directDelivery(conn *rabbit.Connection, publisher *rabbit.Publisher) replayer.DirectDelivery {
	sender := directdelivery.Sender{
		Topology: a.topology, StateKeys: a.secrets.stateKeys, Publisher: publisher, Login: a.login, Own: map[string]bool{},
		Binder: topology.Reconciler{Conn: conn, Config: topology.Config{Topology: a.topology}},
	}
	for _, route := range a.settings.Routes {
		sender.Own[route.Queue] = true
	}
	return sender
}

// routes asks the broker where messages go. For exchanges it needs the management API.
func (a *App) routes(ctx context.Context, conn *rabbit.Connection, target replayer.Target) (replayer.Routes, error) {
	management, err := a.Management()
	if err != nil {
		return nil, err
	}
	if target.Kind == replayer.ToOrigin || target.Kind == replayer.ToExchange {
		ctx, cancel := WithTimeout(ctx)
		defer cancel()
		if _, err := management.WhoAmI(ctx); err != nil {
			return nil, fmt.Errorf("whether the routes lead to a queue cannot be checked (%w): "+
				"set amqp.management_url (now %s), or go on with --unchecked-routes", err, a.settings.AMQP.ManagementURL)
		}
	}
	return rabbit.NewRoutes(management, conn, a.vhost, a.topology), nil
}

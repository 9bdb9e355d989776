package routes

import (
	"context"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/operate/waiting"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/routeconfig"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/rabbitmq"
)

// Handlers returns the configuration of the handlers of every role, and of the topology
// that they declare, without the files that routes name.
func Handlers(sys *system.System) pipeline.Config {
	return HandlersWith(sys, sys.Settings(), routeconfig.Files{})
}

// HandlersWith is Handlers with other routes and policies, and the files that routes name.
func HandlersWith(sys *system.System, settings config.Config, files routeconfig.Files) pipeline.Config {
	settings = settings.Clone()
	secrets := sys.Secrets()
	cfg := pipeline.Config{
		Standalone: true,
		Connection: rabbitmq.Connection{URL: sys.ServerURL(), Nodes: sys.ServerNodes(), TLS: secrets.AMQPTLS, Dial: sys.Broker("").Dial}, Topology: sys.Topology(), StateKeys: secrets.StateKeys, Fingerprints: settings.Fingerprint, Streams: sys.Streams(),
		QueueType: pipeline.QueueType(settings.Topology.QueueType), Tap: routeconfig.Taps(settings.Tap.Exchanges),
		Default: routeconfig.Policy(settings.Retry, settings.Retry.Default), Rules: settings.Retry.Rules, RetriedDeaths: settings.Retry.Deaths, Breaker: settings.Retry.Breaker,
		ReturnGrace: settings.Retry.Return.Grace, ReturnPause: settings.Retry.Return.Pause,
		Decisions:      waiting.NewDecisions(func(ctx context.Context) (waiting.Records, error) { return sys.Store(ctx) }).Find,
		ConfirmTimeout: settings.Retry.Return.Timeout, StopTimeout: settings.StopTimeout, Logger: sys.Logger(), TracerProvider: sys.Exporters().TracerProvider(), BareSpans: sys.Redactor() != nil,
	}
	if !settings.AMQP.URL.IsEmbedded() {
		address := settings.AMQP.ManagementURL
		cfg.ManagementURL, cfg.ManagementNodes, cfg.ManagementClient = address.Reveal(), address.Nodes(), sys.ManagementClient()
	}
	cfg.Routes = routeconfig.Routes(settings, files)
	addOpenFailures(sys, settings.Routes, cfg.Routes)
	return cfg
}

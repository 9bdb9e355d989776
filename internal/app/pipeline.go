package app

import (
	"context"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/explain"
	"github.com/watershipmq/watership/internal/routeconfig"
	"github.com/watershipmq/watership/internal/waiting"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/streamid"
)

// pipeline returns the configuration of the handlers of every role, and of the topology
// that they declare, without the files that routes name.
func (a *App) pipeline() pipeline.Config { return a.pipelineWith(*a.configured(), routeconfig.Files{}) }

// pipelineWith is pipeline with other routes and policies, and the files that routes name.
func (a *App) pipelineWith(settings config.Config, files routeconfig.Files) pipeline.Config {
	settings = settings.Clone()
	cfg := pipeline.Config{
		Standalone: true,
		URL:        a.serverURL(), TLS: a.secrets.AMQPTLS, Topology: a.topology, StateKeys: a.secrets.StateKeys, Fingerprints: settings.Fingerprint, Streams: a.streams(),
		QueueType: pipeline.QueueType(settings.Topology.QueueType), Tap: routeconfig.Taps(settings.Tap.Exchanges),
		Default: routeconfig.Policy(settings.Retry, settings.Retry.Default), Rules: settings.Retry.Rules, RetriedDeaths: settings.Retry.Deaths, Breaker: settings.Retry.Breaker,
		ReturnGrace: settings.Retry.Return.Grace, ReturnPause: settings.Retry.Return.Pause,
		Decisions:      waiting.NewDecisions(func(ctx context.Context) (waiting.Records, error) { return a.Store(ctx) }).Find,
		ConfirmTimeout: settings.Retry.Return.Timeout, StopTimeout: settings.StopTimeout, Logger: a.logger,
	}
	if !settings.AMQP.URL.IsEmbedded() {
		cfg.ManagementURL, cfg.ManagementClient = settings.AMQP.ManagementURL.Reveal(), a.secrets.ManagementClient()
	}
	cfg.Routes = routeconfig.Routes(settings, files)
	a.addOpenFailures(settings.Routes, cfg.Routes)
	return cfg
}

// streams returns the function that finds the streams of messages.
func (a *App) streams() func(schemas.Envelope) schemas.MessageStream {
	streams, _ := streamid.New(a.settings.Streams...) // the configuration has checked them
	return streams
}

// Policies returns the policies and rules of the running server, or else of the configuration.
func (a *App) Policies() explain.Config {
	handlers := a.pipeline()
	if s := a.server.Load(); s != nil {
		handlers = *s.config.Load()
	}
	return explain.Config{Routes: handlers.Routes, Default: handlers.Default, Rules: handlers.Rules}
}

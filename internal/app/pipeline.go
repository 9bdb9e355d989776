package app

import (
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/webhookconfig"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/streamid"
)

// pipeline returns the configuration of the handlers of every role, and of the topology
// that they declare. Their requests are not signed.
func (a *App) pipeline() pipeline.Config { return a.signingPipeline(nil) }

// signingPipeline is pipeline with the secrets of each queue's handler.
func (a *App) signingPipeline(secrets map[string][][]byte) pipeline.Config {
	settings := a.settings.Clone()
	cfg := pipeline.Config{
		Standalone: true,
		URL:        a.serverURL(), TLS: a.secrets.AMQPTLS, Topology: a.topology, StateKeys: a.secrets.StateKeys, Fingerprints: settings.Fingerprint, Streams: a.streams(),
		QueueType: pipeline.QueueType(settings.Topology.QueueType), Tap: taps(settings.Tap.Exchanges),
		Default: policy(settings.Retry, settings.Retry.Default), RetriedDeaths: settings.Retry.Deaths, Breaker: settings.Retry.Breaker,
		ReturnGrace: settings.Retry.Return.Grace, ReturnPause: settings.Retry.Return.Pause,
		ConfirmTimeout: settings.Retry.Return.Timeout, StopTimeout: settings.StopTimeout, Logger: a.logger,
	}
	if !settings.AMQP.URL.IsEmbedded() {
		cfg.ManagementURL, cfg.ManagementClient = settings.AMQP.ManagementURL.Reveal(), a.secrets.ManagementClient()
	}
	for _, r := range settings.Routes {
		cfg.Routes = append(cfg.Routes, route(r, policy(settings.Retry, r.Retry), secrets[r.Queue]))
	}
	return cfg
}

// streams returns the function that finds the streams of messages.
func (a *App) streams() func(schemas.Envelope) schemas.MessageStream {
	streams, _ := streamid.New(a.settings.Streams...) // the configuration has checked them
	return streams
}

func taps(exchanges []config.TapExchange) []pipeline.Tap {
	var taps []pipeline.Tap
	for _, exchange := range exchanges {
		taps = append(taps, pipeline.Tap{Exchange: exchange.Name, Type: exchange.Type, Keys: exchange.Keys})
	}
	return taps
}

func route(r config.Route, retries *retry.Policy, secrets [][]byte) pipeline.Route {
	route := pipeline.Route{
		Queue: r.Queue, Arguments: r.Arguments, Concurrency: r.Concurrency, Policy: retries, Timeout: r.Timeout, Park: r.Park,
		Fairness: fairness(r.Fairness), Headers: r.Headers,
	}
	if r.HasHandler() {
		route.MaxDeliveries = r.MaxDeliveries
		route.Breaker, route.Handler = &r.Breaker, webhook.New(webhookconfig.Of(r.Handler.HTTP, secrets))
	}
	for _, bind := range r.Bind {
		route.Bind = append(route.Bind, pipeline.Binding(bind))
	}
	return route
}

func fairness(f config.Fairness) pipeline.Fairness {
	if f.Key == "" {
		return pipeline.Fairness{}
	}
	key, _ := webhook.ParseKey(f.Key) // the configuration has checked it
	return pipeline.Fairness{Key: key, Concurrency: f.Concurrency, Ordered: f.Ordered}
}

func policy(retries config.Retry, name string) *retry.Policy {
	policy := retries.Policies[name]
	return &policy
}

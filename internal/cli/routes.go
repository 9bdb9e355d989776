package cli

import (
	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/retry"
)

// pipeline returns the configuration of the handlers, and of the topology that they
// declare.
func (s system) pipeline() pipeline.Config {
	s.cfg = s.cfg.Clone()
	cfg := pipeline.Config{
		URL: s.brokerURL(), TLS: s.secrets.amqpTLS, Topology: s.topology, StateKeys: s.secrets.stateKeys, QueueType: pipeline.QueueType(s.cfg.Topology.QueueType),
		Tap: s.taps(), Default: s.policy(s.cfg.Retry.Default), RetriedDeaths: s.cfg.Retry.Deaths,
		Breaker: s.cfg.Retry.Breaker, ReturnGrace: s.cfg.Retry.Return.Grace, ReturnPause: s.cfg.Retry.Return.Pause,
		ConfirmTimeout: s.cfg.Retry.Return.Timeout, StopTimeout: s.cfg.StopTimeout, Logger: s.logger,
	}
	if !s.cfg.AMQP.URL.IsEmbedded() {
		cfg.ManagementURL, cfg.ManagementClient = s.cfg.AMQP.ManagementURL.Reveal(), s.secrets.managementClient()
	}
	for _, r := range s.cfg.Routes {
		cfg.Routes = append(cfg.Routes, s.route(r))
	}
	if s.shop != nil {
		cfg.Tap, cfg.Routes = append(cfg.Tap, s.shop.Taps()...), append(cfg.Routes, s.shop.Routes()...)
	}
	return cfg
}

func (s system) taps() []pipeline.Tap {
	var taps []pipeline.Tap
	for _, exchange := range s.cfg.Tap.Exchanges {
		taps = append(taps, pipeline.Tap{Exchange: exchange.Name, Type: exchange.Type, Keys: exchange.Keys})
	}
	return taps
}

func (s system) route(r config.Route) pipeline.Route {
	route := pipeline.Route{
		Queue: r.Queue, Concurrency: r.Concurrency, Policy: s.policy(r.Retry), Timeout: r.Timeout, Park: r.Park,
		Breaker: &r.Breaker, Handler: httpHandler(r.Handler.HTTP),
	}
	for _, bind := range r.Bind {
		route.Bind = append(route.Bind, pipeline.Binding(bind))
	}
	return route
}

func httpHandler(to config.HTTPHandler) message.HandlerFunc {
	statuses := map[string]pipeline.Meaning{}
	for status, meaning := range to.Statuses {
		statuses[status] = pipeline.Meaning(meaning)
	}
	return pipeline.HTTP(pipeline.HTTPConfig{
		URL: to.URL.Reveal(), Timeout: to.Timeout, Statuses: statuses, Headers: to.Headers, MaxRetryAfter: to.MaxRetryAfter,
	})
}

func (s system) policy(name string) *retry.Policy {
	policy := s.cfg.Retry.Policies[name]
	return &policy
}

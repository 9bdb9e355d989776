package routes

import (
	"context"

	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline"
)

// Service finds, pauses and resumes the routes of a System.
type Service struct {
	System *system.System

	// Handlers returns the handlers of a server, which may have other routes than the
	// configuration. Nil: the handlers of the configuration.
	Handlers func() pipeline.Config
}

func (s Service) handlers() pipeline.Config {
	if s.Handlers == nil {
		return Handlers(s.System)
	}
	return s.Handlers()
}

// States returns the states of routes, and with recent how their latest messages
// fared. An error of the store leaves the states as RabbitMQ has them.
func (s Service) States(ctx context.Context, recent bool) ([]RouteState, error) {
	ctx, cancel := system.WithTimeout(ctx)
	defer cancel()
	handlers, settings := s.handlers(), s.System.Settings()
	cfg := Config{
		Topology: s.System.Topology(), VHost: s.System.VHost(), Source: settings.Source,
		Routes: handlers.Routes, Default: handlers.Default, Foreign: settings.ForeignQueues(),
	}
	var err error
	if cfg.Connection, err = s.System.Connection(); err != nil {
		return nil, err
	}
	if cfg.Events, err = s.System.Store(ctx); err != nil {
		return nil, err
	}
	if cfg.Publisher, err = s.returningPublisher(ctx); err != nil {
		return nil, err
	}
	for _, route := range settings.Routes {
		if route.Schema != "" {
			cfg.Checked = append(cfg.Checked, route.Queue)
		}
	}
	cfg.Management, _ = s.System.Management() // RabbitMQ may not have it
	return cfg.List(ctx, recent)
}

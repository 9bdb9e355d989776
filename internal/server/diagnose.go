package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/operate/routes"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline"
)

// Diagnose runs every check of doctor on a System with its handlers. It changes nothing.
func Diagnose(ctx context.Context, sys *system.System, handlers pipeline.Config) []doctor.Finding {
	return doctor.Run(ctx, diagnosis(sys, handlers))
}

// Diagnose runs every check of doctor on the running server. It changes nothing.
func (s *Server) Diagnose(ctx context.Context) []doctor.Finding {
	return Diagnose(ctx, s.System, s.Handlers())
}

// diagnosis returns what doctor checks of a System with its handlers.
func diagnosis(sys *system.System, handlers pipeline.Config) doctor.Config {
	settings, secrets := sys.Settings(), sys.Secrets()
	service := routes.Service{System: sys, Handlers: func() pipeline.Config { return handlers }}
	return doctor.Config{
		Settings: settings, Topology: sys.Topology(), Pipeline: handlers, Login: sys.Login(), VHost: sys.VHost(),
		StateKeys: secrets.StateKeys, Client: sys.ManagementClient(), Timeout: system.RequestTimeout,
		Files:         func() error { return Check(sys) },
		Embedded:      sys.Broker("").Instance != "" || settings.AMQP.URL.IsEmbedded(),
		Connect:       func(ctx context.Context) (*rabbit.Connection, error) { return sys.Dial(ctx) },
		Management:    sys.Management,
		OpenStore:     func(ctx context.Context) (doctor.Store, error) { return sys.Store(ctx) },
		Ready:         func(ctx context.Context) (string, error) { return askServer(ctx, settings.HTTP, "/readyz") },
		Routes:        func(ctx context.Context) ([]routes.RouteState, error) { return service.States(ctx, false) },
		Subscriptions: sys.Subscriptions,
	}
}

// checkLimits returns an error with every limit by which the broker may drop messages,
// and the command that removes it. It reports if the management API does not tell.
func (s setup) checkLimits(ctx context.Context) error {
	found, err := doctor.Limits(ctx, diagnosis(s.System, routes.Handlers(s.System)))
	if err != nil {
		s.report("policies", fmt.Sprintf("not checked, so they may drop messages: %v", err))
	}
	var limits []error
	for _, f := range found {
		limits = append(limits, errors.New(f.Detail+"\n  → "+f.Instruction()))
	}
	return errors.Join(limits...)
}

// reportLimits logs the limits by which the broker may drop messages, once the queues are
// declared. The server goes on: to record and retry nothing would lose more.
func (s *Server) reportLimits(ctx context.Context) error {
	select {
	case <-s.handlers.Running():
	case <-ctx.Done():
		return nil
	}
	found, err := doctor.Limits(ctx, diagnosis(s.System, s.Handlers()))
	if err != nil && ctx.Err() == nil {
		s.Logger().Warn("the policies of RabbitMQ are not checked, so they may drop messages", "error", err)
	}
	for _, f := range found {
		s.Logger().Error("the broker may drop messages: "+f.Detail, "remedy", f.Instruction())
	}
	return nil
}

func (s *Server) logExposures() {
	for _, e := range doctor.Exposures(s.settings) {
		s.Logger().Warn("a secret is exposed: "+e.Detail, "remedy", e.Instruction())
	}
}

package app

import (
	"context"
	"errors"

	"github.com/watershipmq/watership/internal/doctor"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/routestate"
	"github.com/watershipmq/watership/pipeline"
)

// Diagnose runs every check of doctor. It changes nothing.
func (a *App) Diagnose(ctx context.Context) []doctor.Finding {
	return doctor.Run(ctx, a.doctorConfig(a.pipeline()))
}

func (a *App) doctorConfig(handlers pipeline.Config) doctor.Config {
	return doctor.Config{
		Settings: *a.configured(), Topology: a.topology, Pipeline: handlers, Login: a.login, VHost: a.vhost,
		StateKeys: a.secrets.StateKeys, Client: a.secrets.ManagementClient(), StoreKind: a.storeKind(), Timeout: RequestTimeout,
		Files:         a.checkFiles,
		Embedded:      a.running.instance != "" || a.settings.AMQP.URL.IsEmbedded(),
		Connect:       func(ctx context.Context) (*rabbit.Connection, error) { return a.Dial(ctx) },
		Management:    a.Management,
		OpenStore:     func(ctx context.Context) (doctor.Store, error) { return a.Store(ctx) },
		Ready:         func(ctx context.Context) (string, error) { return askServer(ctx, a.settings.HTTP, "/readyz") },
		Routes:        func(ctx context.Context) ([]routestate.State, error) { return a.RouteStates(ctx, false) },
		Subscriptions: a.Subscriptions,
	}
}

// checkLimits returns an error with every limit by which the broker may drop messages,
// and the command that removes it.
func (a *App) checkLimits(ctx context.Context) error {
	var limits []error
	for _, f := range doctor.Limits(ctx, a.doctorConfig(a.pipeline())) {
		limits = append(limits, errors.New(f.Detail+"\n  → "+f.Remedy))
	}
	return errors.Join(limits...)
}

// reportLimits logs the limits once the queues are declared. The server goes on: to
// record and retry nothing would lose more.
func (s *Server) reportLimits(ctx context.Context) error {
	select {
	case <-s.handlers.Running():
	case <-ctx.Done():
		return nil
	}
	for _, f := range doctor.Limits(ctx, s.doctorConfig(*s.config.Load())) {
		s.logger.Error("the broker may drop messages: "+f.Detail, "remedy", f.Remedy)
	}
	return nil
}

func (a *App) logExposures() {
	for _, e := range doctor.Exposures(a.settings) {
		a.logger.Warn("a secret is exposed: "+e.Detail, "remedy", e.Remedy)
	}
}

package server

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/watershipmq/watership/internal/operate/doctor"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/pipeline"
)

func (s *Server) has(r role.Role) bool { return slices.Contains(s.settings.Roles, r) }

// withRoles returns the part of a configuration of all handlers that a process with the
// roles runs. Without role.Routes other processes consume the queues of its routes, whose
// dead letters still have their policies.
func withRoles(cfg pipeline.Config, roles []role.Role) pipeline.Config {
	cfg.Standalone, cfg.Roles = false, nil
	for _, r := range roles {
		if !slices.Contains([]role.Role{role.Routes, role.Index, role.Subscriptions, role.Alerts}, r) {
			cfg.Roles = append(cfg.Roles, pipeline.Role(r))
		}
	}
	handles, retries := slices.Contains(roles, role.Routes), slices.Contains(roles, role.Retry)
	var routes []pipeline.Route
	for _, route := range cfg.Routes {
		switch {
		case handles && (retries || route.Handler != nil):
			routes = append(routes, route)
		case retries:
			routes = append(routes, pipeline.Route{Queue: route.Queue, Policy: route.Policy, Headers: route.Headers, Park: route.Park, Check: route.Check})
		}
	}
	cfg.Routes = routes
	return cfg
}

const policiesInterval = 30 * time.Second

// watchPolicies logs processes that have the same role with different policies, until ctx
// ends: any of them may get a message. Without the management API it finds none.
func (s *Server) watchPolicies(ctx context.Context) error {
	if s.settings.AMQP.URL.IsEmbedded() || !s.has(role.Retry) && !s.has(role.Due) {
		return nil
	}
	management, err := s.Management()
	if err != nil {
		return nil // doctor reports it
	}
	gauge := promauto.With(s.registry).NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "watership", Name: "policies", Help: "Number of different policies among the processes with a role; more than 1 is a mistake.",
	}, []string{"role"})
	ticker := time.NewTicker(policiesInterval)
	defer ticker.Stop()
	for watch := (policyWatch{s.System, management, gauge, map[role.Role]string{}}); ; {
		watch.check(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// policyWatch looks for processes with different policies.
type policyWatch struct {
	*system.System
	management *rabbit.Management
	gauge      *prometheus.GaugeVec
	known      map[role.Role]string // the text that was logged last
}

func (w policyWatch) check(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	roles, err := doctor.Roles(ctx, w.management, w.VHost(), w.Topology())
	if err != nil {
		return // doctor reports it
	}
	for _, p := range roles {
		if p.Role != role.Retry && p.Role != role.Due {
			continue
		}
		w.gauge.WithLabelValues(string(p.Role)).Set(float64(len(p.Policies())))
		text := ""
		if len(p.Policies()) > 1 {
			text = doctor.PoliciesText(p)
		}
		if w.known[p.Role] != text && text != "" {
			w.Logger().Error(text, "remedy", doctor.PoliciesRemedy)
		}
		w.known[p.Role] = text
	}
}

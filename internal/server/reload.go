package server

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/routeconfig"
)

// Reloaded is the result of a reload of the configuration.
type Reloaded struct {
	Time    time.Time                `json:"time"`
	Changed []string                 `json:"changed" nullable:"false" doc:"Settings that have taken effect"`
	Restart []string                 `json:"restart" nullable:"false" doc:"Settings that have changed since the start, and take effect at the next one"`
	Routes  routeconfig.RouteChanges `json:"routes" doc:"Queues of the routes that are not as before"`
	Problem string                   `json:"problem,omitempty" doc:"Why nothing was changed"`
}

// reloads replace parts of a Server.
type reloads struct {
	server   *Server
	load     func() (config.Config, error) // nil: the configuration is fixed
	started  config.Config                 // as written at the start
	loaded   config.Config                 // as written at the latest reload
	routes   routeconfig.State
	requests chan chan<- reloadResult
	latest   atomic.Pointer[Reloaded] // nil: it was not reloaded
}

type reloadResult struct {
	reloaded Reloaded
	err      error
}

// reloadable reports whether a setting takes effect without a restart.
func reloadable(key string) bool {
	return key == "routes" || strings.HasPrefix(key, "alerts.") || strings.HasPrefix(key, "retry.") && !strings.HasPrefix(key, "retry.return.")
}

// Reload reads the configuration of the running server again, with the files that its routes
// name: routes, policies and alerts take effect, with no message lost. If anything is wrong, everything
// stays as it is.
func (x *reloads) Reload(ctx context.Context) (Reloaded, error) {
	if x.load == nil {
		return Reloaded{}, system.InputErrorf("the program that runs this server reads its configuration only when it starts: restart it")
	}
	result := make(chan reloadResult, 1)
	select {
	case x.requests <- result:
	case <-ctx.Done():
		return Reloaded{}, context.Cause(ctx)
	}
	select {
	case r := <-result:
		return r.reloaded, r.err
	case <-ctx.Done():
		return Reloaded{}, context.Cause(ctx)
	}
}

// serve reloads one time after the other until ctx ends.
func (x *reloads) serve(ctx context.Context) error {
	succeeded := promauto.With(x.server.registry).NewGauge(prometheus.GaugeOpts{
		Namespace: "watership", Name: "config_last_reload_successful", Help: "0 if the latest reload of the configuration has failed.",
	})
	succeeded.Set(1)
	for {
		select {
		case result := <-x.requests:
			r, err := x.replaceSettings(ctx)
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			} else {
				// The state comes before the line of the log, since readers of the line may ask for it.
				succeeded.Set(1)
				r.Time = time.Now()
				if err != nil {
					succeeded.Set(0)
					r.Problem = err.Error()
				}
				x.latest.Store(&r)
				x.log(r, err)
			}
			result <- reloadResult{r, err}
		case <-ctx.Done():
			return nil
		}
	}
}

func (x *reloads) log(r Reloaded, err error) {
	logger := x.server.Logger()
	if err != nil {
		logger.Error("the configuration was not reloaded, and the running one stays", "error", err)
	} else {
		logger.Info("configuration reloaded", "changed", r.Changed,
			slog.Group("routes", "added", r.Routes.Added, "changed", r.Routes.Changed, "removed", r.Routes.Removed))
	}
	if len(r.Restart) > 0 {
		logger.Warn("changed settings need a restart to take effect", "settings", strings.Join(r.Restart, ", "))
	}
}

func (x *reloads) replaceSettings(ctx context.Context) (Reloaded, error) {
	s, r := x.server, Reloaded{Changed: []string{}, Restart: []string{}, Routes: routeconfig.NoChanges()}
	loaded, err := x.load()
	if err != nil {
		return r, system.InputError{Err: err}
	}
	if usesFile(x.loaded) && !usesFile(loaded) {
		return r, system.InputErrorf("the configuration file has no settings: it may be half written")
	}
	r.Restart = slices.AppendSeq(r.Restart, keysOf(x.started.Differences(loaded), func(key string) bool { return !reloadable(key) }))
	settings := s.Settings()
	unchanged := settings.Retry.Return
	settings.Routes, settings.Retry, settings.Alerts = loaded.Routes, loaded.Retry, loaded.Alerts
	settings.Retry.Return = unchanged
	files, err := routeconfig.Read(settings.Routes, settings.Roles)
	if err != nil {
		return r, system.InputError{Err: err}
	}
	next := routeconfig.State{Settings: settings, Files: files}
	same := func(queue string) bool { return s.more.have(queue) || x.routes.Same(next, queue) }
	handlers := s.more.handlers(s.System, settings, files)
	if s.alerts != nil {
		if err := s.alerts.Check(settings.Alerts); err != nil {
			return r, err
		}
	}
	if err := s.handlers.Reload(ctx, handlers, same); err != nil {
		return r, err
	}
	if s.alerts != nil {
		if err := s.alerts.Reload(settings.Alerts); err != nil { // which was checked
			return r, err
		}
	}
	r.Changed = slices.AppendSeq(r.Changed, keysOf(x.loaded.Differences(loaded), reloadable))
	r.Routes = x.routes.Changes(next)
	x.loaded, x.routes = loaded, next
	s.Replace(settings)
	s.config.Store(&handlers)
	return r, nil
}

// usesFile reports whether settings are from a configuration file.
func usesFile(c config.Config) bool {
	return slices.ContainsFunc(c.Describe(), func(s config.Setting) bool { return s.Origin.Place == config.File })
}

func keysOf(keys []string, match func(string) bool) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, key := range keys {
			if match(key) && !yield(key) {
				return
			}
		}
	}
}

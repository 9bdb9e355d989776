package pipeline

import (
	"context"
	"reflect"
	"slices"

	"github.com/watershipmq/watership/internal/topology"
	"github.com/watershipmq/watership/internal/topology/role"
)

// reload is a call of Reload.
type reload struct {
	ctx  context.Context // of the caller
	next Config
	keep func(queue string) bool
	done chan error // has room for the result
}

// Reload replaces Routes, Default, Rules, RetriedDeaths and Breaker of the configuration by the fields of
// next while Run runs, and ignores its other fields. A route that is in both configurations and
// of which keep returns true goes on as it is, if the Rules are the same; the caller knows that its settings are the same.
// Any other route, and RoleRetry if it decides in another way, stops consuming and finishes the messages in
// flight, within StopTimeout, before its successor begins. Messages wait in their queues
// until then. The queue of a route that next does not have stays, with its bindings.
//
// With an error nothing has changed, but queues and bindings of next may have been declared. A
// nil keep keeps no route. Reload returns when all routes consume, or when ctx ends; a reload
// that has begun goes on then.
func (p *Pipeline) Reload(ctx context.Context, next Config, keep func(queue string) bool) error {
	if keep == nil {
		keep = func(string) bool { return false }
	}
	r := reload{ctx, next, keep, make(chan error, 1)}
	select {
	case p.reloads <- r:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// serveReloads replaces configurations one after the other until ctx ends.
func (p *Pipeline) serveReloads(ctx context.Context) {
	select {
	case <-p.Running():
	case <-ctx.Done():
		return
	}
	for {
		select {
		case r := <-p.reloads:
			r.done <- p.reload(ctx, r)
		case <-ctx.Done():
			return
		}
	}
}

func (p *Pipeline) reload(ctx context.Context, r reload) error {
	next, declared, err := p.prepareReload(r)
	if err != nil {
		return err
	}
	stopped := p.cfg.replacedBy(next, r.keep)
	p.handlers.Stop(stopped...)
	if ctx.Err() != nil { // the router ends, and takes no handlers
		return context.Cause(ctx)
	}
	p.mu.Lock()
	p.cfg.reload(next)
	p.reconciler.Latest.Store(&declared)
	err = p.addHandlers(watermillLogger(p.cfg.Logger))
	p.forget(stopped)
	p.mu.Unlock()
	if err != nil {
		return err
	}
	p.pauses.Check(ctx)
	p.handlers.Start(ctx)
	return context.Cause(ctx)
}

// prepareReload checks the next configuration and declares its topology.
func (p *Pipeline) prepareReload(r reload) (next Config, declared topology.Config, err error) {
	next = p.cfg
	next.reload(r.next)
	next = next.withDefaults()
	if err := next.validate(); err != nil {
		return next, declared, err
	}
	if declared, err = next.topology(p.vhost); err != nil {
		return next, declared, err
	}
	ctx, cancel := context.WithTimeout(r.ctx, declareTimeout)
	defer cancel()
	return next, declared, topology.Reconciler{Conn: p.connections.declaring, Config: declared, SelfBindings: p.reconciler.SelfBindings, Turns: p.reconciler.Turns, Logger: p.cfg.Logger}.Declare(ctx)
}

// reload sets the fields that Reload replaces, and writes no other: connections and publishers
// read those at any time.
func (c *Config) reload(next Config) {
	c.Routes, c.Default, c.Rules, c.RetriedDeaths, c.Breaker = next.Routes, next.Default, next.Rules, next.RetriedDeaths, next.Breaker
	c.classifier = next.classifier
}

// replacedBy returns the queues whose handlers stop.
func (c *Config) replacedBy(next Config, keep func(queue string) bool) (queues []string) {
	sameRules := reflect.DeepEqual(c.Rules, next.Rules)
	stays := func(route Route) bool {
		return keep(route.Queue) && sameRules && slices.ContainsFunc(next.Routes, func(r Route) bool {
			return r.Queue == route.Queue && (r.Handler == nil) == (route.Handler == nil)
		})
	}
	same := len(c.Routes) == len(next.Routes)
	for _, route := range c.Routes {
		if !stays(route) {
			same = false
			queues = append(queues, route.Queue)
		}
	}
	if names := c.Topology; !same || c.policies(role.Retry) != next.policies(role.Retry) {
		queues = append(queues, names.Retry(), names.Report())
	}
	return queues
}

// forget removes the state of routes that were stopped and have no successor.
func (p *Pipeline) forget(stopped []string) {
	for _, queue := range stopped {
		if p.handlers.Has(queue) {
			continue
		}
		delete(p.admissions, queue)
		delete(p.consumptions, queue)
		p.metrics.Standby.DeleteLabelValues(queue)
		p.pauses.Forget(queue)
		p.metrics.Paused.DeleteLabelValues(queue)
	}
}

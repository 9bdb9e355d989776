// Package routeconfig makes the routes of a pipeline, and the handlers that call HTTP services,
// from the configuration and the files that it names.
package routeconfig

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/system/secret"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/pipeline/bodyschema"
	"github.com/watershipmq/watership/pipeline/webhook"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Files are the contents of the files that routes name, by queue.
type Files struct {
	secrets map[string][][]byte
	schemas map[string]*bodyschema.Schema
}

// Read reads the files that a process with the roles needs. Its errors are mistakes of the
// configuration, and name the key of the setting.
func Read(routes []config.Route, roles []role.Role) (f Files, err error) {
	handles := slices.Contains(roles, role.Routes)
	if handles {
		f.secrets, err = secret.Webhooks(routes)
	}
	mistakes := []error{err}
	f.schemas = map[string]*bodyschema.Schema{}
	for i, r := range routes {
		if r.Schema == "" || !slices.Contains(roles, role.Retry) && !(handles && r.HasHandler()) {
			continue
		}
		if f.schemas[r.Queue], err = bodyschema.Load(r.Schema); err != nil {
			mistakes = append(mistakes, fmt.Errorf("routes[%d].schema: %w", i, err))
		}
	}
	return f, errors.Join(mistakes...)
}

// Routes returns the routes of the configuration.
func Routes(settings config.Config, files Files) []pipeline.Route {
	var routes []pipeline.Route
	for _, r := range settings.Routes {
		routes = append(routes, route(r, Policy(settings.Retry, r.Retry), files))
	}
	return routes
}

func route(r config.Route, retries *retry.Policy, files Files) pipeline.Route {
	route := pipeline.Route{
		Queue: r.Queue, Arguments: r.Arguments, Concurrency: r.Concurrency, Policy: retries, Rules: r.Rules, Timeout: r.Timeout, Park: r.Park,
		Fairness: fairness(r.Fairness), Ordering: ordering(r.Ordering), Headers: r.Headers,
	}
	if schema := files.schemas[r.Queue]; schema != nil {
		route.Check, route.CheckDigest = schema.Check, schema.Digest()
	}
	if r.HasHandler() {
		route.MaxDeliveries = r.MaxDeliveries
		route.Breaker, route.Handler = &r.Breaker, webhook.New(Of(r.Handler.HTTP, files.secrets[r.Queue]))
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
	return pipeline.Fairness{Key: key, Concurrency: f.Concurrency, Ordered: f.Ordered, Rate: f.Rate}
}

func ordering(o config.Ordering) pipeline.Ordering {
	if o.Class == "" {
		return pipeline.Ordering{}
	}
	key, _ := webhook.ParseKey(o.Key) // the configuration has checked both
	made := pipeline.Ordering{Class: o.Class, Key: key, Within: o.Within}
	if o.Sequence != "" {
		of, _ := webhook.ParseKey(o.Sequence)
		made.Sequence = func(e schemas.Envelope) int64 {
			n, _ := strconv.ParseInt(of(e), 10, 64)
			return max(n, 0)
		}
	}
	return made
}

// Policy returns the retry policy with a name, which the configuration has.
func Policy(retries config.Retry, name string) *retry.Policy {
	policy := retries.Policies[name]
	return &policy
}

// Taps returns the tapped exchanges of the configuration.
func Taps(exchanges []config.TapExchange) []pipeline.Tap {
	var taps []pipeline.Tap
	for _, exchange := range exchanges {
		taps = append(taps, pipeline.Tap{Exchange: exchange.Name, Type: exchange.Type, Keys: exchange.Keys})
	}
	return taps
}

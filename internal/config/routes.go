package config

import (
	"maps"
	"slices"
	"time"

	"github.com/watershipmq/watership/retry"
)

func readTap(l *loader, path string, n node) TapExchange {
	var tap TapExchange
	l.parts(path, n,
		part{name: "name", read: value(name(1, shortString), &tap.Name)},
		part{name: "type", read: value(oneOf("topic", "fanout", "direct", "headers"), &tap.Type)},
		part{name: "keys", read: list(name(0, shortString), &tap.Keys)},
	)
	return tap
}

func readRoute(l *loader, path string, n node) Route {
	var route Route
	l.parts(path, n,
		part{name: "queue", read: value(queueName, &route.Queue)},
		part{name: "bind", read: each(readBind, &route.Bind)},
		part{name: "handler", read: readHandler(&route.Handler)},
		part{name: "concurrency", fallback: "16", read: value(wholeNumber(1, 10_000), &route.Concurrency)},
		part{name: "retry", read: value(name(1, 200), &route.Retry)},
	)
	return route
}

func readBind(l *loader, path string, n node) Bind {
	var bind Bind
	l.parts(path, n,
		part{name: "exchange", read: value(name(1, shortString), &bind.Exchange)},
		part{name: "key", read: value(name(0, shortString), &bind.Key)},
	)
	return bind
}

func readHandler(into *Handler) read {
	return func(l *loader, path string, n node) {
		l.keep(path, node{Origin: n.Origin})
		l.parts(path, n, part{name: "http", read: readHTTPHandler(&into.HTTP)})
	}
}

func readHTTPHandler(into *HTTPHandler) read {
	return func(l *loader, path string, n node) {
		l.keep(path, node{Origin: n.Origin})
		l.parts(path, n,
			part{name: "url", read: value(address("http", "https"), &into.URL)},
			part{name: "timeout", fallback: "30s", read: value(duration(time.Millisecond, day), &into.Timeout)},
		)
	}
}

// readPolicies reads policies by their names, which are the user's.
func readPolicies(into *map[string]retry.Policy) read {
	return func(l *loader, path string, n node) {
		l.keep(path, node{Origin: n.Origin})
		if n.Form != mapping {
			l.fail(path, n, "expected policies by name")
			return
		}
		*into = map[string]retry.Policy{}
		for _, f := range n.Fields {
			at := join(path, f.Name)
			if _, err := name(1, 200)(f.Name); err != nil {
				l.fail(redact(at), f.Value, "expected a name of 1 to 200 bytes")
				continue
			}
			l.keep(at, node{Origin: f.Value.Origin})
			var policy retry.Policy
			l.parts(at, f.Value, part{name: "delays", read: list(delay, &policy.Delays)})
			_, given := f.Value.field("delays")
			l.require(at+".delays", !given, "the delays between attempts ([] for a single attempt)")
			(*into)[f.Name] = policy
		}
	}
}

// complete fills in what follows from other settings.
func (l *loader) complete(c *Config) {
	if c.AMQP.ManagementURL.IsZero() && !l.failed["amqp.management_url"] {
		c.AMQP.ManagementURL = managementURL(c.AMQP.URL)
		l.keep("amqp.management_url", textNode(c.AMQP.ManagementURL.full, Origin{Place: Derived, Name: "amqp.url"}))
	}
	if c.Retry.Policies == nil {
		c.Retry.Policies = map[string]retry.Policy{}
	}
	if _, given := c.Retry.Policies["default"]; !given {
		l.addDefaultPolicy(c.Retry.Policies)
	}
	for i := range c.Routes {
		if c.Routes[i].Retry == "" {
			c.Routes[i].Retry = c.Retry.Default
			l.keep(element("routes", i)+".retry", textNode(c.Retry.Default, Origin{Place: Derived, Name: "retry.default"}))
		}
	}
}

func (l *loader) addDefaultPolicy(policies map[string]retry.Policy) {
	policies["default"] = retry.Default()
	delays := node{Form: sequence}
	for _, d := range retry.Default().Delays {
		delays.Items = append(delays.Items, textNode(FormatDuration(d), Origin{}))
	}
	l.keep("retry.policies.default.delays", delays)
}

// policyNames lists the policies that there are.
func (c *Config) policyNames() []string { return slices.Sorted(maps.Keys(c.Retry.Policies)) }

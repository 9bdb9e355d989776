package config

import (
	"github.com/watershipmq/watership/internal/render/quantity"
	"github.com/watershipmq/watership/retry"
)

// complete sets the settings that follow from others.
func (l *loader) complete(c *Config) {
	if c.AMQP.ManagementURL.IsZero() && !l.failed["amqp.management_url"] {
		if c.AMQP.ManagementURL = managementURL(c.AMQP.URL); !c.AMQP.ManagementURL.IsZero() {
			l.record("amqp.management_url", c.AMQP.ManagementURL.node(Origin{Place: Derived, Name: "amqp.url"}))
		}
	}
	l.completeRetry(&c.Retry)
	for i := range c.Routes {
		if c.Routes[i].Retry == "" {
			c.Routes[i].Retry = c.Retry.Default
			l.derive(element("routes", i)+".retry", c.Retry.Default, "retry.default")
		}
		if c.Routes[i].HasHandler() {
			c.Routes[i].Breaker = c.Routes[i].Breaker.Or(c.Retry.Breaker)
		}
	}
}

// completeBroker sets amqp.url to the embedded broker, if only its listen address is set.
func (l *loader) completeBroker(c *Config) {
	if c.AMQP.Listen != "" && l.seen["amqp.url"].Origin.Place == Default {
		c.AMQP.URL = NewURL(Embedded)
		l.derive("amqp.url", Embedded, "amqp.listen")
	}
}

func (l *loader) completeRetry(c *Retry) {
	if c.Policies == nil {
		c.Policies = map[string]retry.Policy{}
	}
	if _, found := c.Policies["default"]; !found {
		l.addDefaultPolicy(c.Policies)
	}
	if c.Breaker.Cap == 0 && !l.failed["retry.breaker.cap"] {
		c.Breaker.Cap = c.Breaker.WithDefaults().Cap
		l.derive("retry.breaker.cap", quantity.FormatDuration(c.Breaker.Cap), "retry.breaker.first")
	}
}

// derive records a value that follows from the one of another key.
func (l *loader) derive(path, value, from string) {
	l.record(path, textNode(value, Origin{Place: Derived, Name: from}))
}

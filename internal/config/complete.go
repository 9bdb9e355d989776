package config

import (
	"github.com/watershipmq/watership/retry"
)

// complete fills in what follows from other settings.
func (l *loader) complete(c *Config) {
	if c.AMQP.ManagementURL.IsZero() && !l.failed["amqp.management_url"] {
		if c.AMQP.ManagementURL = managementURL(c.AMQP.URL); !c.AMQP.ManagementURL.IsZero() {
			l.derive("amqp.management_url", c.AMQP.ManagementURL.full, "amqp.url")
		}
	}
	l.completeRetry(&c.Retry)
	for i := range c.Routes {
		if c.Routes[i].Retry == "" {
			c.Routes[i].Retry = c.Retry.Default
			l.derive(element("routes", i)+".retry", c.Retry.Default, "retry.default")
		}
		c.Routes[i].Breaker = c.Routes[i].Breaker.Or(c.Retry.Breaker)
	}
}

func (l *loader) completeRetry(c *Retry) {
	if c.Policies == nil {
		c.Policies = map[string]retry.Policy{}
	}
	if _, given := c.Policies["default"]; !given {
		l.addDefaultPolicy(c.Policies)
	}
	if c.Breaker.Cap == 0 && !l.failed["retry.breaker.cap"] {
		c.Breaker.Cap = c.Breaker.WithDefaults().Cap
		l.derive("retry.breaker.cap", FormatDuration(c.Breaker.Cap), "retry.breaker.first")
	}
}

// derive remembers a value that follows from another key's.
func (l *loader) derive(path, value, from string) {
	l.keep(path, textNode(value, Origin{Place: Derived, Name: from}))
}

package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/watershipmq/watership/schemas"
)

// check finds what is wrong between settings that are each right.
func (l *loader) check(c *Config) {
	ours := schemas.Topology{Prefix: c.Topology.Prefix}
	l.checkTap(c.Tap.Exchanges, ours)
	l.checkRoutes(c, ours)
	l.checkPolicy("retry.default", c.Retry.Default, c)
	l.checkFields("retry.breaker", c.Retry.Breaker.Validate())
	l.checkLabels(c.Index)
	l.checkStore(c.Store)
	l.checkEmbedded(c)
}

// checkEmbedded refuses what the embedded parts cannot heed.
func (l *loader) checkEmbedded(c *Config) {
	broker, file := c.AMQP.URL.IsEmbedded(), c.Store.URL.File() != ""
	const noLogin = "nothing beside sqlite:, which has no login and no TLS"
	l.require("store.username", file && c.Store.Username != "", noLogin)
	l.require("store.api_key_file", file && c.Store.APIKeyFile != "", noLogin)
	l.require("amqp.password_file", broker && c.AMQP.PasswordFile != "", "nothing beside "+Embedded+", whose login is guest with the password guest")
	l.require("amqp.listen", !broker && c.AMQP.Listen != "", "nothing unless amqp.url is "+Embedded)
}

// checkStore wants one way to log in.
func (l *loader) checkStore(store Store) {
	l.require("store.username", store.Username != "" && store.PasswordFile == "", "store.password_file beside it")
	l.require("store.password_file", store.PasswordFile != "" && store.Username == "", "store.username beside it")
	l.require("store.api_key_file", store.APIKeyFile != "" && store.Username != "", "either an API key or a login")
}

func (l *loader) checkTap(exchanges []TapExchange, ours schemas.Topology) {
	names := map[string]bool{}
	for i, tap := range exchanges {
		at := element("tap.exchanges", i)
		l.require(at+".name", tap.Name == "", "the name of an exchange (the default exchange cannot be tapped)")
		l.require(at+".type", tap.Type == "", "topic, fanout, direct or headers")
		l.require(at+".keys", len(tap.Keys) > 0 && (tap.Type == "fanout" || tap.Type == "headers"), "none: such an exchange is tapped whole")
		l.require(at+".name", ours.Owns(tap.Name), "an exchange that is not our own")
		l.require(at+".name", strings.HasPrefix(tap.Name, "amq.rabbitmq."), "an exchange that does not copy our own deliveries")
		l.require(at+".name", names[tap.Name], "each exchange once")
		names[tap.Name] = true
	}
}

func (l *loader) checkRoutes(c *Config, ours schemas.Topology) {
	queues := map[string]bool{}
	for i, route := range c.Routes {
		at := element("routes", i)
		l.require(at+".queue", route.Queue == "", "the name of a queue")
		l.require(at+".queue", ours.Owns(route.Queue), "a queue that is not our own")
		l.require(at+".queue", queues[route.Queue], "each queue once")
		l.checkParking(at+".park", route, ours)
		l.require(at+".handler.http.url", route.Handler.HTTP.URL.IsZero(), "the URL to which messages are posted")
		l.checkPolicy(at+".retry", route.Retry, c)
		if c.Retry.Breaker.Validate() == nil { // which would be reported for each route
			l.checkFields(at+".breaker", route.Breaker.Validate())
		}
		for j, bind := range route.Bind {
			at := element(at+".bind", j) + ".exchange"
			l.require(at, bind.Exchange == "", "the name of an exchange (every queue is bound to the default exchange)")
			l.require(at, ours.Owns(bind.Exchange), "an exchange that is not our own")
		}
		queues[route.Queue] = true
	}
}

func (l *loader) checkParking(path string, route Route, ours schemas.Topology) {
	parking := route.Queue + ".poison"
	l.require(path, route.Park && ours.Owns(parking), "false, since "+parking+" is our own queue")
	l.require(path, route.Park && len(parking) > shortString, "false, since the name of the queue with .poison would be longer than 255 bytes")
}

func (l *loader) checkPolicy(path, name string, c *Config) {
	_, known := c.Retry.Policies[name]
	l.require(path, !known, "a policy of retry.policies: "+strings.Join(c.policyNames(), ", "))
}

// mostLabels is what fits into an index beside our own fields, of which
// Elasticsearch allows 1000 (index.mapping.total_fields.limit). It refuses every
// document with one more.
const mostLabels = 500

// checkLabels refuses two headers that would be one field, and too many.
func (l *loader) checkLabels(index Index) {
	many := len(index.Labels) + len(index.NumericLabels)
	l.require("index.labels", many > mostLabels, fmt.Sprintf("at most %d labels, those of index.numeric_labels included; there are %d", mostLabels, many))
	for _, labels := range []struct {
		key   string
		names []string
	}{{"index.labels", index.Labels}, {"index.numeric_labels", index.NumericLabels}} {
		var fields []string
		for _, name := range labels.names {
			// As in the document: dots would make an object of the label.
			field := strings.ReplaceAll(name, ".", "_")
			l.require(labels.key, slices.Contains(fields, field), "each label once, with . and _ alike")
			fields = append(fields, field)
		}
	}
}

// require reports a value, and what should stand there instead. What was not
// readable in the first place is reported already.
func (l *loader) require(path string, wrong bool, expected string) {
	if wrong && !l.failed[path] {
		l.failAt(path, "expected "+expected)
	}
}

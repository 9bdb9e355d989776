package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/template/target"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/schemas"
)

// checker finds mistakes in the settings that a loader has read.
type checker struct{ *loader }

// check reports settings that are each valid, and contradict each other.
func (k checker) check(c *Config) {
	topology := schemas.Topology{Prefix: c.Topology.Prefix}
	k.checkRoles(c.Roles)
	k.checkTap(c.Tap.Exchanges, topology)
	k.rejectIf("tap.queue_type", c.Tap.QueueType == "quorum" && c.Topology.QueueType == "classic", "classic, as topology.queue_type is")
	k.checkRoutes(c, topology)
	k.checkPolicy("retry.default", c.Retry.Default, c)
	k.checkRules("retry.rules", c.Retry.Rules)
	k.checkFields("retry.breaker", c.Retry.Breaker.Validate())
	k.checkLabels(c.Index)
	k.checkStreams(c.Streams, topology)
	k.checkStore(c.Store)
	k.checkKeepRules(c.Store.Retention.Rules, topology)
	k.checkRedaction(c.Redact)
	k.checkLogin(c.AMQP)
	k.checkEmbedded(c)
	k.checkAlerts(c.Alerts)
	k.checkApprovals(c)
	k.checkHTTP(c.HTTP)
}

// checkEmbedded refuses settings that have no effect on the embedded broker or store.
func (k checker) checkEmbedded(c *Config) {
	broker, file := c.AMQP.URL.IsEmbedded(), c.Store.URL.File() != ""
	const noLogin = "nothing beside sqlite:, which has no login and no TLS"
	k.rejectIf("store.product", file && c.Store.Product != "auto", "nothing beside sqlite:, which asks no server")
	k.rejectIf("store.username", file && c.Store.Username != "", noLogin)
	k.rejectIf("store.api_key_file", file && c.Store.APIKeyFile != "", noLogin)
	k.rejectIf("redact.subject_keys_file", !file && c.Redact.SubjectKeysFile != "", "nothing unless store.url is sqlite:, since Elasticsearch has these keys in an index")
	k.rejectIf("amqp.password_file", broker && c.AMQP.PasswordFile != "", "nothing beside "+Embedded+", whose login is guest with the password guest")
	k.rejectIf("amqp.listen", !broker && c.AMQP.Listen != "", "nothing unless amqp.url is "+Embedded)
}

// checkLogin refuses a password for a URL that has one, or that has no user.
func (k checker) checkLogin(amqp AMQP) {
	wrong := amqp.PasswordFile != "" && !amqp.URL.IsEmbedded() && !amqp.URL.namesUserOnly()
	k.rejectIf("amqp.password_file", wrong && !k.failed["amqp.url"], "a user without a password in amqp.url beside it")
}

// checkStore refuses incomplete credentials, and two kinds of them.
func (k checker) checkStore(store Store) {
	k.rejectIf("store.username", store.Username != "" && store.PasswordFile == "", "store.password_file beside it")
	k.rejectIf("store.password_file", store.PasswordFile != "" && store.Username == "", "store.username beside it")
	login := store.URL.hasLogin()
	k.rejectIf("store.username", store.Username != "" && login, "no login in store.url beside it")
	k.rejectIf("store.api_key_file", store.APIKeyFile != "" && login, "no login in store.url beside it")
	k.rejectIf("store.api_key_file", store.APIKeyFile != "" && store.Username != "", "either an API key or a login")
}

func (k checker) checkRoles(roles []role.Role) {
	k.rejectIf("roles", len(roles) == 0, "at least one of "+strings.Join(roleNames(), ", "))
	for i, r := range roles {
		k.rejectIf(element("roles", i), slices.Contains(roles[:i], r), "each role once")
	}
}

func (k checker) checkTap(exchanges []TapExchange, topology schemas.Topology) {
	names := map[string]bool{}
	for i, tap := range exchanges {
		at := element("tap.exchanges", i)
		k.rejectIf(at+".name", tap.Name == "", "the name of an exchange (the default exchange cannot be tapped)")
		k.rejectIf(at+".type", tap.Type == "", "topic, fanout, direct or headers")
		k.rejectIf(at+".keys", len(tap.Keys) > 0 && (tap.Type == "fanout" || tap.Type == "headers"), "none: such an exchange is tapped whole")
		k.rejectIf(at+".name", topology.Owns(tap.Name), "an exchange that is not Watership's")
		k.rejectIf(at+".name", strings.HasPrefix(tap.Name, "amq.rabbitmq."), "an exchange that does not copy Watership's deliveries")
		k.rejectIf(at+".name", names[tap.Name], "each exchange once")
		names[tap.Name] = true
	}
}

func (k checker) checkRoutes(c *Config, topology schemas.Topology) {
	queues := map[string]bool{}
	for i, route := range c.Routes {
		at := element("routes", i)
		k.rejectIf(at+".queue", route.Queue == "", "the name of a queue")
		k.rejectIf(at+".queue", topology.Owns(route.Queue), "a queue that is not Watership's")
		k.rejectIf(at+".queue", queues[route.Queue], "each queue once")
		k.checkParking(at+".park", route, topology)
		_, handled := k.seen[at+".handler"]
		k.rejectIf(at+".handler.http.url", handled && !route.HasHandler(), "the URL to which messages are posted")
		if route.HasHandler() {
			k.checkHosts(at+".handler.http", route.Handler.HTTP)
		}
		k.checkArguments(at+".arguments", route.Arguments)
		k.checkPolicy(at+".retry", route.Retry, c)
		k.checkRules(at+".rules", route.Rules)
		k.rejectIf(at+".ordering", route.Ordering.Class != "" && route.Fairness.Key != "", "none beside fairness, which keeps the order with ordered")
		if c.Retry.Breaker.Validate() == nil { // which would be reported for each route
			k.checkFields(at+".breaker", route.Breaker.Validate())
		}
		for j, bind := range route.Bind {
			at := element(at+".bind", j) + ".exchange"
			k.rejectIf(at, bind.Exchange == "", "the name of an exchange (every queue is bound to the default exchange)")
			k.rejectIf(at, topology.Owns(bind.Exchange), "an exchange that is not Watership's")
		}
		queues[route.Queue] = true
	}
}

// checkHosts refuses a host that every message may choose, and lists without effect.
func (k checker) checkHosts(path string, to HTTPHandler) {
	u, err := target.ParseURL(to.URL.Reveal())
	chosen := err == nil && u.HostFromMessage()
	const noEffect = "nothing, as no field of a message makes the host of url"
	k.rejectIf(path+".hosts", chosen && len(to.Hosts) == 0, "the hosts to which requests may be sent, such as [\"*.example.com\"], as a field of the message makes the host of url")
	k.rejectIf(path+".hosts", !chosen && len(to.Hosts) > 0, noEffect)
	k.rejectIf(path+".private_networks", !chosen && len(to.PrivateNetworks) > 0, noEffect)
}

func (k checker) checkParking(path string, route Route, topology schemas.Topology) {
	parking := topology.Parking(route.Queue)
	k.rejectIf(path, route.Park && topology.Owns(parking), "false, since "+parking+" is a queue of Watership")
	k.rejectIf(path, route.Park && len(parking) > shortString, "false, since the name of the queue with .poison would be longer than 255 bytes")
}

func (k checker) checkPolicy(path, name string, c *Config) {
	_, known := c.Retry.Policies[name]
	k.rejectIf(path, !known, "a policy of retry.policies: "+strings.Join(c.policyNames(), ", "))
}

// maxLabels leaves room for the other fields of a document: Elasticsearch allows
// 1000 in an index (index.mapping.total_fields.limit), and refuses every document
// with one more.
const maxLabels = 500

// checkLabels refuses two headers that would be the same field, and too many.
func (k checker) checkLabels(index Index) {
	many := len(index.Labels) + len(index.NumericLabels)
	k.rejectIf("index.labels", many > maxLabels, fmt.Sprintf("at most %d labels, those of index.numeric_labels included; there are %d", maxLabels, many))
	for _, labels := range []struct {
		key   string
		names []string
	}{{"index.labels", index.Labels}, {"index.numeric_labels", index.NumericLabels}} {
		var fields []string
		for _, name := range labels.names {
			// As in the document: dots would make an object of the label.
			field := strings.ReplaceAll(name, ".", "_")
			k.rejectIf(labels.key, slices.Contains(fields, field), "each label once, with . and _ alike")
			fields = append(fields, field)
		}
	}
}

// rejectIf reports a value that is wrong, with the values that are possible. A value
// that could not be parsed was reported before.
func (l *loader) rejectIf(path string, wrong bool, expected string) {
	if wrong && !l.failed[path] {
		l.failAt(path, "expected "+expected)
	}
}

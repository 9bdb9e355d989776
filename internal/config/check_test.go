package config

import (
	"strings"
	"testing"
)

const handler = "handler: {http: {url: 'http://h/'}}"

// Settings that are each possible, and not together.
func TestSettingsThatContradict(t *testing.T) {
	long := strings.Repeat("q", 250)
	for name, test := range map[string]struct{ file, want string }{
		"a login without a password": {
			"store.username: shop", `w.yaml:1: store.username: "shop": expected store.password_file beside it`,
		},
		"a password without a login": {
			"store.password_file: /pw", `w.yaml:1: store.password_file: "/pw": expected store.username beside it`,
		},
		"a login and an API key": {
			"store: {username: shop, password_file: /pw, api_key_file: /key}", `w.yaml:1: store.api_key_file: "/key": expected either an API key or a login`,
		},
		"a login at a file": {
			"store: {url: 'sqlite:a.db', username: shop, password_file: /pw}",
			`w.yaml:1: store.username: "shop": expected nothing beside sqlite:, which has no login and no TLS`,
		},
		"an API key at a file": {
			"store: {url: 'sqlite:a.db', api_key_file: /key}",
			`w.yaml:1: store.api_key_file: "/key": expected nothing beside sqlite:, which has no login and no TLS`,
		},
		"a product of a file": {
			"store: {url: 'sqlite:a.db', product: opensearch}",
			`w.yaml:1: store.product: "opensearch": expected nothing beside sqlite:, which asks no server`,
		},
		"a file for keys that are in an index": {
			"redact.subject_keys_file: /keys/subjects", `w.yaml:1: redact.subject_keys_file: "/keys/subjects": expected nothing unless store.url is sqlite:, since Elasticsearch has these keys in an index`,
		},
		"a password of the embedded broker": {
			"amqp: {url: 'embedded://', password_file: /pw}",
			`w.yaml:1: amqp.password_file: "/pw": expected nothing beside embedded://, whose login is guest with the password guest`,
		},
		"a password in amqp.url as well": {
			"amqp: {url: 'amqp://shop:s3cret@rabbit', password_file: /pw}", `w.yaml:1: amqp.password_file: "/pw": expected a user without a password in amqp.url beside it`,
		},
		"a password of nobody": {
			"amqp: {url: 'amqp://rabbit', password_file: /pw}", `w.yaml:1: amqp.password_file: "/pw": expected a user without a password in amqp.url beside it`,
		},
		"a login in store.url as well": {
			"store: {url: 'http://shop:s3cret@search:9200', username: shop, password_file: /pw}", `w.yaml:1: store.username: "shop": expected no login in store.url beside it`,
		},
		"a login in store.url and an API key": {
			"store: {url: 'http://shop:s3cret@search:9200', api_key_file: /key}", `w.yaml:1: store.api_key_file: "/key": expected no login in store.url beside it`,
		},
		"an exchange that is no structure": {"tap.exchanges: [b]", `w.yaml:1: tap.exchanges[0]: "b": expected fields such as name`},
		"a route that is no structure":     {"routes: [b]", `w.yaml:1: routes[0]: "b": expected fields such as queue`},
		"a listener of RabbitMQ": {
			"amqp: {listen: ':5672', url: 'amqp://rabbit'}", `w.yaml:1: amqp.listen: ":5672": expected nothing unless amqp.url is embedded://`,
		},
		"an alert rule without a condition": {
			"alerts.receivers: [{name: a, slack: {url_file: /u}}]\nalerts.rules: [{name: r}]", "w.yaml:2: alerts.rules[0].on: expected the condition: new_group, regressed, poisoned, slow, receiver, paused, lag, gap or doctor",
		},
		"an alert rule twice": {
			"alerts.receivers: [{name: a, slack: {url_file: /u}}]\nalerts.rules: [{name: r, on: gap}, {name: r, on: doctor}]", "w.yaml:2: alerts.rules[1].name: \"r\": expected each rule once",
		},
		"a query of a rule about routes": {
			"alerts.receivers: [{name: a, slack: {url_file: /u}}]\nalerts.rules: [{name: r, on: paused, query: 'watership.queue: a'}]", "w.yaml:2: alerts.rules[0].query: \"watership.queue: a\": expected no query: only new_group, regressed, poisoned, slow and receiver have one",
		},
		"a number of failures without a time": {
			"alerts.receivers: [{name: a, slack: {url_file: /u}}]\nalerts.rules: [{name: r, on: poisoned, more_than: 5}]", "w.yaml:2: alerts.rules[0].within: expected the time in which failures are counted, such as 10m",
		},
		"a number of failures that is missing": {
			"alerts.receivers: [{name: a, slack: {url_file: /u}}]\nalerts.rules: [{name: r, on: poisoned, within: 5m}]", "w.yaml:2: alerts.rules[0].more_than: expected the number of failures that are no alert",
		},
		"slow without a duration": {
			"alerts.receivers: [{name: a, slack: {url_file: /u}}]\nalerts.rules: [{name: r, on: slow, within: 5m}]", "w.yaml:2: alerts.rules[0].slower_than: expected the time that 95 percent of the attempts may take, such as 30s",
		},
		"slow without a period": {
			"alerts.receivers: [{name: a, slack: {url_file: /u}}]\nalerts.rules: [{name: r, on: slow, slower_than: 5s}]", "w.yaml:2: alerts.rules[0].within: expected the time whose attempts count, such as 15m",
		},
		"a duration of another condition": {
			"alerts.receivers: [{name: a, slack: {url_file: /u}}]\nalerts.rules: [{name: r, on: gap, slower_than: 5s}]", `w.yaml:2: alerts.rules[0].slower_than: "5s": expected nothing: only slow has it`,
		},
		"a time of another condition": {
			"alerts.receivers: [{name: a, slack: {url_file: /u}}]\nalerts.rules: [{name: r, on: gap, time: queue}]", `w.yaml:2: alerts.rules[0].time: "queue": expected nothing: only slow has it`,
		},
		"a broken receiver without a time": {
			"alerts.receivers: [{name: a, slack: {url_file: /u}}]\nalerts.rules: [{name: r, on: receiver}]", "w.yaml:2: alerts.rules[0].within: expected the time in which no request to a receiver has succeeded, such as 10m",
		},
		"a lag without a bound": {
			"alerts.receivers: [{name: a, slack: {url_file: /u}}]\nalerts.rules: [{name: r, on: lag}]", "w.yaml:2: alerts.rules[0].behind: expected how far the record may be behind, such as 5m",
		},
		"a receiver of a rule that is missing": {
			"alerts.receivers: [{name: a, slack: {url_file: /u}}]\nalerts.rules: [{name: r, on: gap, receivers: [b]}]", "w.yaml:2: alerts.rules[0].receivers[0]: expected a receiver of alerts.receivers: a",
		},
		"alert rules without a receiver": {
			"alerts.rules: [{name: r, on: gap}]", "default: alerts.receivers: expected at least one receiver, since there are rules",
		},
		"a receiver of a rule with none configured": {
			"alerts.rules: [{name: r, on: gap, receivers: [b]}]", "default: alerts.receivers: expected at least one receiver, since there are rules\nw.yaml:1: alerts.rules[0].receivers[0]: expected a receiver of alerts.receivers, of which there are none",
		},
		"a receiver of two kinds": {
			"alerts.receivers: [{name: a, slack: {url_file: /u}, mail: {server: 'h:25', from: a@b, to: [a@b]}}]", "w.yaml:1: alerts.receivers[0]: expected one of alertmanager, webhook, slack, teams, discord, pagerduty, opsgenie, mail",
		},
		"a receiver of no kind": {
			"alerts.receivers: [{name: a}]", "w.yaml:1: alerts.receivers[0]: expected one of alertmanager, webhook, slack, teams, discord, pagerduty, opsgenie, mail",
		},
		"a chat without the file of its URL": {
			"alerts.receivers: [{name: a, teams: {}}]", "w.yaml:1: alerts.receivers[0].teams.url_file: expected the file with the URL of the incoming webhook",
		},
		"a service of incidents without its key": {
			"alerts.receivers: [{name: a, opsgenie: {url: 'https://api.eu.opsgenie.com'}}]", "w.yaml:1: alerts.receivers[0].opsgenie.key_file: expected the file with the key of the integration",
		},
		"a mail without recipients": {
			"alerts.receivers: [{name: a, mail: {server: 'h:25', from: a@b}}]", "w.yaml:1: alerts.receivers[0].mail.to: expected the addresses of recipients",
		},
		"a password in clear": {
			"alerts.receivers: [{name: a, mail: {server: 'h:25', from: a@b, to: [a@b], tls: none, username: u, password_file: /p}}]", "w.yaml:1: alerts.receivers[0].mail.username: \"u\": expected starttls or tls beside a login",
		},
		"no role": {
			"roles: []", `w.yaml:1: roles: expected at least one of routes, retry, due, poison, index, subscriptions, alerts`,
		},
		"a role twice": {
			"roles: [index, index]", `w.yaml:1: roles[1]: expected each role once`,
		},
		"a default policy that is missing": {
			"retry.default: fast", `w.yaml:1: retry.default: "fast": expected a policy of retry.policies: default`,
		},
		"a policy of a route that is missing": {
			"routes: [{queue: a, retry: fast, " + handler + "}]\nretry.policies: {slow: {delays: [1m]}}",
			`w.yaml:1: routes[0].retry: "fast": expected a policy of retry.policies: default, slow`,
		},
		"a stream without an id": {
			`streams: [{exchange: shop, version: "{headers.version}"}]`, `w.yaml:1: streams[0].id: expected the id of streams, such as order-{headers.order_id}`,
		},
		"fairness without a key": {
			"routes: [{queue: a, fairness: {ordered: true}, " + handler + "}]", `w.yaml:1: routes[0].fairness: expected the key of messages, such as {headers.merchant}`,
		},
		"a key that is the same for all": {
			"routes: [{queue: a, fairness: {key: merchant}, " + handler + "}]", `w.yaml:1: routes[0].fairness.key: "merchant": expected a field of the message, such as {headers.merchant}`,
		},
		"two messages of a key at once, in order": {
			`routes: [{queue: a, fairness: {key: "{headers.m}", ordered: true, concurrency: 2}, ` + handler + "}]",
			`w.yaml:1: routes[0].fairness.concurrency: "2": expected none beside ordered, which handles one message of a key at a time`,
		},
		"a rate without a time": {
			`routes: [{queue: a, fairness: {key: "{headers.m}", rate: 10}, ` + handler + "}]",
			`w.yaml:1: routes[0].fairness.rate: "10": expected a number in a time such as 10/s, 30/m or 100/h, from 1/h to 10000/s`,
		},
		"ordering beside fairness": {
			`routes: [{queue: a, fairness: {key: "{headers.m}"}, ordering: {class: c, key: "{headers.m}"}, ` + handler + "}]",
			"w.yaml:1: routes[0].ordering: expected none beside fairness, which keeps the order with ordered",
		},
		"fairness without a handler": {
			`routes: [{queue: a, fairness: {key: "{headers.m}"}}]`,
			"w.yaml:1: routes[0].fairness: expected a handler beside it: without one, another program consumes the queue, and the route only has queue, retry, rules, headers, schema and park",
		},
		"arguments that are a list": {
			"routes: [{queue: a, arguments: [x-max-priority], " + handler + "}]", `w.yaml:1: routes[0].arguments: "x-max-priority": expected values by the names of arguments, such as {x-max-priority: 5}`,
		},
		"an argument of no queue": {
			"routes: [{queue: a, arguments: {priority: 5}, " + handler + "}]", `w.yaml:1: routes[0].arguments.priority: expected the name of an argument, such as x-max-priority, and its value`,
		},
		"a stream": {
			"routes: [{queue: a, arguments: {x-queue-type: stream}, " + handler + "}]",
			`w.yaml:1: routes[0].arguments.x-queue-type: "stream": expected quorum or classic: a route would skip the messages of a stream that are published while it does not run`,
		},
		"pauses that shrink": {
			"retry.breaker: {first: 2m, cap: 1m}", `w.yaml:1: retry.breaker.cap: "1m": expected at least first, 2m0s`,
		},
		"pauses of a route that shrink": {
			"routes: [{queue: a, breaker: {first: 2m, cap: 1m}, " + handler + "}]", `w.yaml:1: routes[0].breaker.cap: "1m": expected at least first, 2m0s`,
		},
		"pauses of a route below the first of all": {
			"routes: [{queue: a, breaker: {cap: 1m}, " + handler + "}]\nretry.breaker.first: 2m",
			`w.yaml:1: routes[0].breaker.cap: "1m": expected at least first, 2m0s`,
		},
		"a route without a queue": {
			"routes: [{" + handler + "}]", `w.yaml:1: routes[0].queue: expected the name of a queue`,
		},
		"a route without a service": {
			"routes: [{queue: a, handler: {}}]", `w.yaml:1: routes[0].handler.http.url: expected the URL to which messages are posted`,
		},
		"a host of every message's choice": {
			`routes: [{queue: a, handler: {http: {url: "https://{headers.host}/"}}}]`,
			`w.yaml:1: routes[0].handler.http.hosts: expected the hosts to which requests may be sent, such as ["*.example.com"], as a field of the message makes the host of url`,
		},
		"a queue of Watership's": {
			"routes: [{queue: watership.due, " + handler + "}]", `w.yaml:1: routes[0].queue: "watership.due": expected a queue that is not Watership's`,
		},
		"a queue of Watership's by its prefix": {
			"routes: [{queue: shop.due, " + handler + "}]\ntopology.prefix: shop", `w.yaml:1: routes[0].queue: "shop.due": expected a queue that is not Watership's`,
		},
		"a queue twice": {
			"routes:\n- {queue: a, " + handler + "}\n- {queue: a, " + handler + "}", `w.yaml:3: routes[1].queue: "a": expected each queue once`,
		},
		"a binding without an exchange": {
			"routes: [{queue: a, bind: [{key: x}], " + handler + "}]",
			`w.yaml:1: routes[0].bind[0].exchange: expected the name of an exchange (every queue is bound to the default exchange)`,
		},
		"a binding to Watership's exchange": {
			"routes: [{queue: a, bind: [{exchange: watership.events}], " + handler + "}]",
			`w.yaml:1: routes[0].bind[0].exchange: "watership.events": expected an exchange that is not Watership's`,
		},
		"a parking queue with too long a name": {
			"routes: [{queue: " + long + ", park: true, " + handler + "}]",
			`w.yaml:1: routes[0].park: "true": expected false, since the name of the queue with .poison would be longer than 255 bytes`,
		},
		"a parking queue of Watership's": {
			"routes: [{queue: watership, park: true, " + handler + "}]",
			`w.yaml:1: routes[0].park: "true": expected false, since watership.poison is a queue of Watership`,
		},
		"the default exchange tapped": {
			"tap.exchanges: [{type: topic}]", `w.yaml:1: tap.exchanges[0].name: expected the name of an exchange (the default exchange cannot be tapped)`,
		},
		"an exchange without a type": {
			"tap.exchanges: [{name: a}]", `w.yaml:1: tap.exchanges[0].type: expected topic, fanout, direct or headers`,
		},
		"keys of a fanout exchange": {
			"tap.exchanges: [{name: a, type: fanout, keys: [b]}]", `w.yaml:1: tap.exchanges[0].keys: "b": expected none: such an exchange is tapped whole`,
		},
		"keys of a headers exchange": {
			"tap.exchanges: [{name: a, type: headers, keys: [b]}]", `w.yaml:1: tap.exchanges[0].keys: "b": expected none: such an exchange is tapped whole`,
		},
		"Watership's exchange tapped": {
			"tap.exchanges: [{name: watership.events, type: topic}]",
			`w.yaml:1: tap.exchanges[0].name: "watership.events": expected an exchange that is not Watership's`,
		},
		"the firehose tapped": {
			"tap.exchanges: [{name: amq.rabbitmq.trace, type: topic}]",
			`w.yaml:1: tap.exchanges[0].name: "amq.rabbitmq.trace": expected an exchange that does not copy Watership's deliveries`,
		},
		"a rule of retention for everything": {
			"store: {retention: {rules: [{keep: forever}]}}",
			"w.yaml:1: store.retention.rules[0].exchange: expected an exchange, key, stream or label: store.retention.traffic is for all others",
		},
		"a rule of retention without a period": {
			"store: {retention: {rules: [{exchange: shop}]}}", "w.yaml:1: store.retention.rules[0].keep: expected how long the events are kept, such as forever",
		},
		"a rule of redaction without a key of hashes": {
			"redact: {rules: [{pattern: mail}]}",
			"default: redact.hash_key_file: expected a file with a key, which redact.rules need, such as of `openssl rand -hex 32`",
		},
		"a rule of subjects without keys of originals": {
			"redact: {hash_key_file: /k, rules: [{header: x, subject: true}]}",
			"default: redact.original_keys_file: expected a file with a key, which rules with subject need to seal the keys of subjects",
		},
		"a rule of redaction for two values": {
			"redact: {hash_key_file: /k, rules: [{pattern: mail, header: x}]}", "w.yaml:1: redact.rules[0]: expected one of header, json, text and pattern",
		},
		"a rule of redaction with an expression that is none": {
			"redact: {hash_key_file: /k, rules: [{pattern: '('}]}",
			"w.yaml:1: redact.rules[0]: pattern: expected one of mail, card, iban, token, or a regular expression (RE2): error parsing regexp: missing closing ): `(`",
		},
		"a rule of retention for an exchange of Watership": {
			"store: {retention: {rules: [{exchange: watership.events, keep: 1d}]}}",
			`w.yaml:1: store.retention.rules[0].exchange: "watership.events": expected an exchange that is not Watership's`,
		},
		"a period of minutes": {
			"store: {retention: {rules: [{exchange: shop, keep: 90m}]}}",
			`w.yaml:1: store.retention.rules[0].keep: "90m": expected forever, or whole days or hours such as 730d or 12h, up to 36500d`,
		},
		"nine periods": {
			"store: {retention: {rules: [" + strings.TrimSuffix(strings.Repeat("{exchange: a, keep: 1d}, ", 3), ", ") +
				", {key: b, keep: 2d}, {key: c, keep: 3d}, {key: d, keep: 4d}, {key: e, keep: 5d}, {key: f, keep: 6d}, {key: g, keep: 7d}, {key: h, keep: 8d}, {key: i, keep: forever}]}}",
			"w.yaml:1: store.retention.rules: expected rules with at most 8 different periods; there are 9",
		},
		"an exchange tapped twice": {
			"tap.exchanges:\n- {name: a, type: topic}\n- {name: a, type: topic}", `w.yaml:3: tap.exchanges[1].name: "a": expected each exchange once`,
		},
		"labels that are one field": {
			"index.labels: [a.b, a_b]", `w.yaml:1: index.labels: "a.b, a_b": expected each label once, with . and _ alike`,
		},
		"numeric labels that are one field": {
			"index.numeric_labels: [a_b, a.b]", `w.yaml:1: index.numeric_labels: "a_b, a.b": expected each label once, with . and _ alike`,
		},
		"a policy without delays": {
			"retry.policies: {slow: {}}",
			`w.yaml:1: retry.policies.slow.delays: expected the delays between attempts ([] for a single attempt), or first and attempts where they grow, or at with hours of the day`,
		},
		"a policy with two kinds of delays": {
			"retry.policies: {slow: {delays: [1s], first: 1s, attempts: 2}}", `w.yaml:1: retry.policies.slow.first: "1s": expected either delays or first`,
		},
		"a growing policy without attempts": {
			"retry.policies: {slow: {first: 1s}}", `w.yaml:1: retry.policies.slow.attempts: expected 1 to 10000`,
		},
		"a cap of listed delays": {
			"retry.policies: {slow: {delays: [1s], cap: 1m}}", `w.yaml:1: retry.policies.slow.cap: "1m": expected none without first, the delay that grows`,
		},
		"a policy without a name": {
			"retry.policies: {'': {delays: []}}", `w.yaml:1: retry.policies.: expected a name of 1 to 200 bytes`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "w.yaml", test.file+"\n")
			if _, err := Load(Sources{File: "w.yaml"}); err == nil || err.Error() != test.want {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
		})
	}
}

// The same kinds of settings where nothing contradicts.
func TestSettingsThatGoTogether(t *testing.T) {
	for _, file := range []string{
		"store: {username: shop, password_file: /pw}",
		"store: {api_key_file: /key}",
		"store: {url: 'sqlite:a.db'}\namqp: {url: 'embedded://', listen: ':5672'}",
		"retry: {default: slow, policies: {slow: {delays: [1m]}}}",
		"retry: {breaker: {first: 2m, cap: 2m}}",
		"retry: {breaker: {first: 2m}}\nroutes: [{queue: a, breaker: {cap: 3m}, " + handler + "}]",
		"routes: [{queue: watership, " + handler + "}]",
		"routes: [{queue: a, bind: [{exchange: amq.topic}, {exchange: b, key: ''}], " + handler + "}]",
		"routes: [{queue: " + strings.Repeat("q", 248) + ", park: true, " + handler + "}]",
		"tap.exchanges: [{name: a, type: direct}, {name: b, type: topic, keys: ['#', a.*]}, {name: amq.fanout, type: fanout}]",
		"index: {labels: [a.b, b], numeric_labels: [a_b]}",
		"retry.policies: {default: {delays: []}, slow: {first: 1s, attempts: 2, classes: {a: {delays: [1s]}}}}",
	} {
		t.Run(file, func(t *testing.T) {
			load(t, file, nil, nil)
		})
	}
}

// A policy named default takes the place of the built-in one.
func TestDefaultPolicyCanBeReplaced(t *testing.T) {
	if got := load(t, "retry.policies: {default: {delays: []}}", nil, nil).Retry.Policies["default"]; got.MaxAttempts() != 1 {
		t.Errorf("the policy is %+v", got)
	}
}

// A value that cannot be read is reported once, and not also for its relations to
// others.
func TestAMistakeIsReportedOnce(t *testing.T) {
	for file, want := range map[string]string{
		"retry.default: ''":                          `w.yaml:1: retry.default: expected text of 1 to 200 bytes`,
		"amqp: {url: 'http://h', management_url: x}": "", // two keys: two mistakes
		"retry.breaker: {first: x, cap: 1s}":         `w.yaml:1: retry.breaker.first: "x": ` + durationUpToADay,
		"retry.policies: {a: {first: x}}":            `w.yaml:1: retry.policies.a.first: "x": ` + delayExpected,
	} {
		t.Chdir(t.TempDir())
		write(t, "w.yaml", file+"\n")
		_, err := Load(Sources{File: "w.yaml"})
		switch {
		case err == nil:
			t.Errorf("%s: no mistake", file)
		case want == "" && strings.Count(err.Error(), "\n") != 1, want != "" && err.Error() != want:
			t.Errorf("%s: got\n%v\nwant %s", file, err, want)
		}
	}
}

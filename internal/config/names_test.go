package config

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// parserCases has texts that a parser accepts as they are, and others.
type parserCases struct {
	parse   func(string) (string, error)
	accepts []string
	refuses []string
}

func TestNamesAndAddresses(t *testing.T) {
	asText := func(parse func(string) (URL, error)) func(string) (string, error) {
		return func(s string) (string, error) {
			u, err := parse(s)
			return u.Reveal(), err
		}
	}
	for name, test := range map[string]parserCases{
		"prefix": {
			topologyPrefix,
			[]string{"a", "watership", "Shop.messages", "9", "_x", "-x", "a-b_c.d", strings.Repeat("p", 200)},
			[]string{"", ".a", "amq.a", "a b", "a/b", "ä", "a\n", strings.Repeat("p", 201)},
		},
		"stream": {
			streamName,
			[]string{"a", "0", "shop-messages", "a.b_c", "logs", "metric-s", strings.Repeat("s", 200)},
			[]string{"", "A", "-a", ".a", "_a", "a b", "a*", "logs-a", "metrics-a", "traces-a", "synthetics-a", "profiling-a", strings.Repeat("s", 201)},
		},
		"queue": {
			queueName,
			[]string{"a", "amq", "a amq.b", "ä", "a/b", strings.Repeat("q", 255)},
			[]string{"", "amq.", "amq.gen-x", "\xff", "a\x00", strings.Repeat("q", 256)},
		},
		"label": {
			headerName,
			[]string{"a", "x-tenant", "a.b", " a", "ä", strings.Repeat("l", 255)},
			[]string{"", " ", "\t\n", "\u00a0", strings.Repeat("l", 256)},
		},
		"path": {
			path,
			[]string{"", "a", "/run/secrets/key", "C:\\key", strings.Repeat("p", 4096)},
			[]string{"a\x00b", "\xff", strings.Repeat("p", 4097)},
		},
		"listener": {
			listenAddress,
			[]string{"", ":0", ":8181", "127.0.0.1:0", "[::1]:65535", "localhost:1"},
			[]string{"8181", ":", "localhost", "::1:80", "localhost:http", ":65536", ":-1", "http://localhost:80"},
		},
		"status": {
			httpStatus,
			[]string{"200", "404", "599", "2xx", "3xx", "4xx", "5xx"},
			[]string{"", "1xx", "6xx", "199", "600", "20x", "2x0", "xxx", "2XX", "2000", " 200"},
		},
		"request header": {
			requestHeader,
			[]string{"traceparent", "X-Tenant", "Authorization"},
			[]string{"", "a b", "a_b", "Host", "content-type", "Watership-Attempt", "X-Death"},
		},
		"URL of a broker": {
			asText(brokerAddress),
			[]string{"embedded://", "amqp://h", "amqps://u:p@h:5671/v", "amqp://[::1]/", "amqp://h?heartbeat=5"},
			[]string{"", "embedded:", "embedded:///", "http://h", "amqp:h", "amqp://", "amqp://:5672", "amqp://h:0", "amqp://h:65536", "amqp://h#x", "AMQP+x://h"},
		},
		"URL of a store": {
			asText(storeAddress),
			[]string{"http://h:9200", "https://u:p@h", "https://h/prefix", "sqlite:a", "sqlite:/a b", "sqlite:../a"},
			[]string{"", "h:9200", "elasticsearch://h", "http:///", "sqlite:", "sqlite://a", "sqlite:a\x00", "file:a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range test.accepts {
				if got, err := test.parse(s); err != nil || got != s {
					t.Errorf("%q: got %q, %v", s, got, err)
				}
			}
			for _, s := range test.refuses {
				got, err := test.parse(s)
				if err == nil {
					t.Errorf("%q is accepted as %q", s, got)
				} else if !strings.HasPrefix(err.Error(), "expected ") {
					t.Errorf("%q: %v does not say which values are possible", s, err)
				}
			}
		})
	}
}

func TestKindsOfURLs(t *testing.T) {
	for full, want := range map[string]struct {
		zero, embedded bool
		file           string
	}{
		"": {zero: true}, "embedded://": {embedded: true}, "embedded://h": {}, "amqp://h": {},
		"sqlite:a.db": {file: "a.db"}, "sqlite:/var/a.db": {file: "/var/a.db"}, "http://sqlite:a.db": {},
	} {
		u := NewURL(full)
		if u.IsZero() != want.zero || u.IsEmbedded() != want.embedded || u.File() != want.file || u.Reveal() != full {
			t.Errorf("%q: zero %t, embedded %t, file %q", full, u.IsZero(), u.IsEmbedded(), u.File())
		}
	}
}

// Text of any key may be a URL in the wrong place, and is then shown without its
// password; other text is shown as it is.
func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "shop": "shop", "a:b": "a:b", "a@b": "a@b", "shop@host:1": "shop@host:1",
		"u:s3cret@h": "xxxxx@h", "amqp://u:s3cret@h/": "amqp://u:xxxxx@h/", "x u:s3cret@h": "xxxxx@h", "://u:s3cret@h": "://xxxxx@h",
	} {
		if got := redact(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func TestNamesOfVariablesAndFlags(t *testing.T) {
	for name, want := range map[string][2]string{
		"source":                  {"WATERSHIP_SOURCE", "source"},
		"stop_timeout":            {"WATERSHIP_STOP_TIMEOUT", "stop-timeout"},
		"amqp.tls.ca":             {"WATERSHIP_AMQP_TLS_CA", "amqp-tls-ca"},
		"retry.breaker.max_alike": {"WATERSHIP_RETRY_BREAKER_MAX_ALIKE", "retry-breaker-max-alike"},
	} {
		key := Key{Name: name}
		if got := [2]string{key.Variable(), key.Flag()}; got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// The defaults that help and documentation show are those in force: a
// configuration that sets each of them is the same as one that sets nothing.
func TestDefaultsCanBeWritten(t *testing.T) {
	flags := map[string]string{}
	for _, key := range Keys() {
		if key.Default != "" {
			flags[key.Name] = key.Default
		}
	}
	written, err := Load(Sources{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	diffConfig(t, load(t, "", nil, nil), written)
	for name := range maps.Keys(flags) {
		if !written.IsSet(name) {
			t.Errorf("%s is not set", name)
		}
	}
}

// The listing of a configuration without any source: every key that has a value,
// in the order of Keys.
func TestDescribeDefaults(t *testing.T) {
	var got []string
	for _, s := range load(t, "", nil, nil).Describe() {
		got = append(got, s.Key+" = "+s.Value+" ("+s.Origin.String()+")")
	}
	want := []string{
		"data = .watership (default)",
		"roles = routes, retry, due, poison, index, subscriptions, alerts (default)",
		"amqp.url = amqp://guest:xxxxx@localhost:5672/ (default)",
		"store.url = http://localhost:9200 (default)",
		"store.product = auto (default)", "store.stream = watership-messages (default)",
		"store.retention.traffic = 30d (default)",
		"store.retention.failures = 90d (default)",
		"redact.unknown = drop (default)",
		"topology.prefix = watership (default)",
		"topology.queue_type = quorum (default)",
		"tap.when_full = keep (default)",
		"tap.limit = 1000000 (default)",
		"retry.default = default (default)",
		"retry.deaths = rejected (default)",
		"retry.breaker.messages = 5 (default)",
		"retry.breaker.within = 5m (default)",
		"retry.breaker.first = 1s (default)",
		"retry.breaker.max_waits = 1000 (default)",
		"retry.breaker.max_wait = 1d (default)",
		"retry.breaker.max_alike = 20 (default)",
		"retry.return.grace = 5m (default)",
		"retry.return.pause = 10s (default)",
		"retry.return.timeout = 30s (default)",
		"index.batch.events = 1000 (default)",
		"index.batch.bytes = 5MiB (default)",
		"index.batch.wait = 500ms (default)",
		"index.memory = 64MiB (default)",
		"index.partitions = 1 (default)",
		"index.partition_key = routing_key (default)",
		"index.body.text = true (default)",
		"index.body.json = true (default)",
		"index.body.max_values = 5000 (default)",
		"fingerprint.fold_dead_letters = false (default)",
		"fingerprint.fold_types = false (default)",
		"stop_timeout = 30s (default)",
		"alerts.interval = 30s (default)",
		"alerts.group_wait = 30s (default)",
		"alerts.group_interval = 5m (default)",
		"alerts.repeat_interval = 12h (default)",
		"approvals.expire = 4h (default)",
		"http.tls.hsts = true (default)",
		"http.auth.oidc.scopes = email (default)",
		"http.auth.oidc.name_claim = email (default)",
		"http.auth.oidc.roles_claim = groups (default)",
		"http.auth.oidc.bearer = false (default)",
		"traces.sample = 1 (default)",
		"server_cleartext = false (default)",
		"log.level = info (default)",
		"log.format = text (default)",
		"amqp.management_url = http://guest:xxxxx@localhost:15672 (from amqp.url)",
		"retry.policies.default.delays = 1s, 10s, 30s (default)",
		"retry.breaker.cap = 1m (from retry.breaker.first)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The listing of a route: its own fields with their lines, and its defaults.
func TestDescribeARoute(t *testing.T) {
	c := load(t, `routes:
- queue: orders
  bind:
  - exchange: shop
    key: order.#
  handler:
    http:
      url: https://u:s3cret@h/hook?token=s3cret
      statuses:
        404: poison
- queue: rest
  handler: {http: {url: "http://h/"}}
  retry: slow
retry.policies:
  slow:
    delays: [1m]
`, nil, nil)
	var got []string
	for _, s := range c.Describe() {
		if strings.HasPrefix(s.Key, "routes") || strings.HasPrefix(s.Key, "retry.policies") {
			got = append(got, s.Key+" = "+s.Value+" ("+s.Origin.String()+")")
		}
	}
	want := []string{
		"routes[0].queue = orders (w.yaml:2)",
		"routes[0].bind[0].exchange = shop (w.yaml:4)",
		"routes[0].bind[0].key = order.# (w.yaml:5)",
		"routes[0].handler.http.url = https://u:xxxxx@h/hook?token=xxxxx (w.yaml:8)",
		"routes[0].handler.http.timeout = 30s (default)",
		"routes[0].handler.http.statuses.404 = poison (w.yaml:10)",
		"routes[0].handler.http.keep_answers = false (default)",
		"routes[0].handler.http.max_retry_after = 1h (default)",
		"routes[0].concurrency = 16 (default)",
		"routes[0].max_deliveries = 5 (default)",
		"routes[0].park = false (default)",
		"routes[1].queue = rest (w.yaml:11)",
		"routes[1].handler.http.url = http://h/ (w.yaml:12)",
		"routes[1].handler.http.timeout = 30s (default)",
		"routes[1].handler.http.keep_answers = false (default)",
		"routes[1].handler.http.max_retry_after = 1h (default)",
		"routes[1].concurrency = 16 (default)",
		"routes[1].retry = slow (w.yaml:13)",
		"routes[1].max_deliveries = 5 (default)",
		"routes[1].park = false (default)",
		"retry.policies.slow.delays = 1m (w.yaml:16)",
		"retry.policies.default.delays = 1s, 10s, 30s (default)",
		"routes[0].retry = default (from retry.default)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A breaker of a route has its own fields, and otherwise those of retry.breaker.
func TestBreakersOfRoutes(t *testing.T) {
	c := load(t, "retry.breaker: {messages: 7, cap: 30s}\nroutes:\n- {queue: a, breaker: {messages: 9, max_waits: 0}, "+handler+"}\n- {queue: b, "+handler+"}\n", nil, nil)
	own, common := c.Routes[0].Breaker, c.Routes[1].Breaker
	if own.Messages != 9 || own.Cap != common.Cap || own.MaxWaits != -1 || own.Within != common.Within {
		t.Errorf("the breaker of its own is %+v", own)
	}
	if diff := cmp.Diff(c.Retry.Breaker, common); diff != "" || common.Messages != 7 {
		t.Errorf("the breaker of all is %+v (-want +got):\n%s", common, diff)
	}
}

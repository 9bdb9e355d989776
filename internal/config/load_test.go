package config

import (
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/streamid"
)

// full sets every key in the file.
const full = `
source: shop
data: /var/lib/watership
roles: [routes, index]
amqp:
  url: "amqps://shop@rabbit/prod"
  management_url: "https://rabbit:1"
  password_file: /run/amqp
  tls: {ca: ca.pem, cert: amqp.pem, key: amqp.key}
store:
  url: https://store:9200
  product: opensearch
  stream: shop-messages
  username: shop
  password_file: /run/store
  tls: {ca: /ca.pem, cert: store.pem, key: store.key}
  retention: {traffic: 1d12h, failures: 0}
redact: {hash_key_file: /run/hashes, original_keys_file: /run/originals, unknown: keep, rules: [{exchange: shop, json: email, as: mail, subject: true}, {pattern: card}]}
topology: {prefix: shop.messages, queue_type: classic}
tap:
  exchanges:
    - {name: github, type: topic}
    - {name: orders, type: direct, keys: [new, paid]}
  when_full: drop_oldest
  limit: 5000
routes:
  - queue: orders
    bind: [{exchange: github, key: "push.#"}, {exchange: orders}]
    handler: {http: {url: "http://localhost:8080/", timeout: 5s, statuses: {404: poison, 5xx: unavailable}, answers: [{header: X-Code, value: late, class: ordering}], headers: [x-tenant], keep_answers: true, max_retry_after: 90s, secret_file: /run/webhooks}}
    concurrency: 1
    schema: /orders.json
    retry: slow
    timeout: 1m
    max_deliveries: 0
    breaker: {messages: 50, cap: 5s, max_alike: 3}
    park: true
  - queue: rest
    handler: {http: {url: "https://{headers.host}/{type}", method: "{headers.verb}", set_headers: {authorization: "Bearer {headers.token}"}, hosts: ["*.example.com"], private_networks: [10.20.0.0/16]}}
  - {queue: invoices, retry: slow, headers: {limit: x-retry-limit, count: x-retry, delay: x-delay}, park: true, schema: /invoices.json}
retry:
  default: none
  policies:
    slow: {delays: [1m, 2h, 1d]}
    none: {delays: []}
    growing:
      first: 500ms
      factor: 1.5
      cap: 1h
      jitter: 0.3
      attempts: 12
      classes:
        ordering: {delays: [1d]}
        once: {first: 1s, attempts: 1}
  deaths: [rejected, expired]
  breaker: {messages: 0, within: 1m, first: 2s, cap: 10m, max_waits: 7, max_wait: 1h, max_alike: 0}
  return: {grace: 1h, pause: 30s, timeout: 5s}
stop_timeout: 20s
index:
  batch: {events: 2000, bytes: 1MB, wait: 1s}
  memory: 256MiB
  labels: [tenant, region]
  numeric_labels: [amount]
  time_headers: [timestamp, sent_at]
  body: {text: false, json: false, max_values: 100}
fingerprint: {ignore_headers: [retries], fold_dead_letters: true}
streams: [{exchange: shop, key: "order.#", id: "order-{headers.id}", version: "{body.json.version}"}]
http:
  listen: ":8181"
  url: https://watership.example
  tls: {cert: http.pem, key: http.key, hsts: false}
  trusted_proxies: [10.0.0.0/24]
  auth:
    tokens_file: /run/tokens
    session_key_file: /run/sessions
    oidc:
      issuer: https://login.example
      client_id: watership
      client_secret_file: /run/oidc
      ca: oidc.pem
      scopes: [email, groups]
      name_claim: name
      roles_claim: realm_access.roles
      roles: [{claim: shop, role: operator, bodies: true, body_reasons: true, originals: true, queues: [orders*], exchanges: [github]}]
      bearer: true
log: {level: debug, format: json}
approvals: {expire: 1h, rules: [{actions: [replay], above: 100, targets: [payments*], approver: admin}]}
alerts:
  interval: 1m
  group_wait: 10s
  group_interval: 10m
  repeat_interval: 1d
  rules:
    - {name: new, on: new_group, query: "watership.queue: orders", severity: critical, labels: {team: shop}, receivers: [chat], for: 1m}
    - {name: many, on: poisoned, by: class, more_than: 100, within: 10m}
    - {name: late, on: lag, behind: 5m}
    - {name: slow, on: slow, time: queue, slower_than: 30s, within: 15m}
  receivers:
    - {name: chat, slack: {url_file: /run/slack}}
    - {name: teams, teams: {url_file: /run/teams}}
    - {name: discord, discord: {url_file: /run/discord}}
    - {name: pagerduty, pagerduty: {key_file: /run/pagerduty, url: "https://events.eu.pagerduty.com"}}
    - {name: opsgenie, opsgenie: {key_file: /run/opsgenie}}
    - {name: on-call, alertmanager: {urls: ["http://alerts:9093"], username: shop, password_file: /run/alerts, tls: {ca: alerts.pem}}}
    - {name: hook, webhook: {url: "https://hook/", template: "x", content_type: text/plain, set_headers: {x-team: shop}, token_file: /run/token, secret_file: /run/secret}}
    - {name: mail, mail: {server: "smtp:587", tls: tls, ca: mail.pem, username: shop, password_file: /run/mail, from: ops@shop.example, to: [a@shop.example]}}
`

func alertsOfFull() Alerts {
	return Alerts{
		Interval: time.Minute, GroupWait: 10 * time.Second, GroupInterval: 10 * time.Minute, RepeatInterval: day,
		Rules: []AlertRule{
			{Name: "new", On: "new_group", Query: "watership.queue: orders", Severity: "critical", Labels: map[string]string{"team": "shop"}, Receivers: []string{"chat"}, For: time.Minute},
			{Name: "many", On: "poisoned", By: "class", MoreThan: 100, Within: 10 * time.Minute, Severity: "warning"},
			{Name: "late", On: "lag", Behind: 5 * time.Minute, Severity: "warning"},
			{Name: "slow", On: "slow", Time: "queue", SlowerThan: 30 * time.Second, Within: 15 * time.Minute, Severity: "warning"},
		},
		Receivers: []AlertReceiver{
			{Name: "chat", Slack: IncomingWebhook{URLFile: "/run/slack"}},
			{Name: "teams", Teams: IncomingWebhook{URLFile: "/run/teams"}},
			{Name: "discord", Discord: IncomingWebhook{URLFile: "/run/discord"}},
			{Name: "pagerduty", PagerDuty: IncidentService{KeyFile: "/run/pagerduty", URL: NewURL("https://events.eu.pagerduty.com")}},
			{Name: "opsgenie", Opsgenie: IncidentService{KeyFile: "/run/opsgenie", URL: NewURL("https://api.opsgenie.com")}},
			{Name: "on-call", Alertmanager: Alertmanager{URLs: []URL{NewURL("http://alerts:9093")}, Username: "shop", PasswordFile: "/run/alerts", TLS: TLS{CA: "alerts.pem"}}},
			{Name: "hook", Webhook: AlertWebhook{
				URL: NewURL("https://hook/"), Template: "x", ContentType: "text/plain", SetHeaders: map[string]string{"X-Team": "shop"}, TokenFile: "/run/token", SecretFile: "/run/secret",
			}},
			{Name: "mail", Mail: Mail{
				Server: "smtp:587", TLS: "tls", CA: "mail.pem", Username: "shop", PasswordFile: "/run/mail", From: "ops@shop.example", To: []string{"a@shop.example"},
			}},
		},
	}
}

func TestEveryKeyOfTheFile(t *testing.T) {
	want := Config{
		Source: "shop", Data: "/var/lib/watership", Roles: []role.Role{role.Routes, role.Index},
		AMQP: AMQP{
			URL: NewURL("amqps://shop@rabbit/prod"), ManagementURL: NewURL("https://rabbit:1"),
			PasswordFile: "/run/amqp", TLS: TLS{CA: "ca.pem", Cert: "amqp.pem", Key: "amqp.key"},
		},
		Store: Store{
			URL: NewURL("https://store:9200"), Product: "opensearch", Stream: "shop-messages",
			Username: "shop", PasswordFile: "/run/store", TLS: TLS{CA: "/ca.pem", Cert: "store.pem", Key: "store.key"},
			Retention: Retention{Traffic: 36 * time.Hour},
		},
		Redact: Redact{
			HashKeyFile: "/run/hashes", OriginalKeysFile: "/run/originals", Unknown: "keep",
			Rules: []privacy.Rule{{Exchange: "shop", JSON: "email", As: "mail", Subject: true}, {Pattern: "card"}},
		},
		Topology: Topology{Prefix: "shop.messages", QueueType: "classic"},
		Tap: Tap{Exchanges: []TapExchange{
			{Name: "github", Type: "topic"},
			{Name: "orders", Type: "direct", Keys: []string{"new", "paid"}},
		}, WhenFull: "drop_oldest", Limit: 5000},
		Routes: []Route{
			{
				Queue: "orders",
				Bind:  []Bind{{Exchange: "github", Key: "push.#"}, {Exchange: "orders"}},
				Handler: Handler{HTTP: HTTPHandler{
					URL: NewURL("http://localhost:8080/"), Timeout: 5 * time.Second,
					Statuses: map[string]HTTPOutcome{"404": {Means: "poison"}, "5xx": {Means: "unavailable"}},
					Answers:  []HTTPAnswer{{Header: "X-Code", Value: "late", HTTPOutcome: HTTPOutcome{Class: "ordering"}}}, Headers: []string{"x-tenant"}, KeepAnswers: true, MaxRetryAfter: 90 * time.Second, SecretFile: "/run/webhooks",
				}}, Schema: "/orders.json",
				Concurrency: 1, Retry: "slow", Timeout: time.Minute, MaxDeliveries: -1, Park: true,
				Breaker: retry.Breaker{Messages: 50, Cap: 5 * time.Second, MaxAlike: 3}.Or(breakerOfFull()),
			},
			{Queue: "rest", Handler: toReceivers(), Concurrency: 16, MaxDeliveries: 5, Retry: "none", Breaker: breakerOfFull()},
			{Queue: "invoices", Retry: "slow", Headers: retry.Headers{Limit: "x-retry-limit", Count: "x-retry", Delay: "x-delay"}, Park: true, Schema: "/invoices.json"},
		},
		Retry: Retry{
			Default: "none", Policies: map[string]retry.Policy{
				"slow":    {Delays: []time.Duration{time.Minute, 2 * time.Hour, 24 * time.Hour}},
				"none":    {},
				"default": retry.Default(),
				"growing": {
					First: 500 * time.Millisecond, Factor: 1.5, Cap: time.Hour, Jitter: 0.3, Attempts: 12,
					Classes: map[string]retry.Policy{
						"ordering": {Delays: []time.Duration{24 * time.Hour}},
						"once":     {First: time.Second, Attempts: 1},
					},
				},
			},
			Deaths: []string{"rejected", "expired"}, Breaker: breakerOfFull(),
			Return: Return{Grace: time.Hour, Pause: 30 * time.Second, Timeout: 5 * time.Second},
		},
		Index: Index{
			Batch:      Batch{Events: 2000, Bytes: 1_000_000, Wait: time.Second},
			Memory:     256 << 20,
			Partitions: 1, PartitionKey: "routing_key", Labels: []string{"tenant", "region"}, NumericLabels: []string{"amount"},
			TimeHeaders: []string{"timestamp", "sent_at"}, Body: Body{MaxValues: 100},
		},
		Fingerprint: schemas.Fingerprints{IgnoreHeaders: []string{"retries"}, FoldDeadLetters: true},
		Streams:     []streamid.Rule{{Exchange: "shop", Key: "order.#", ID: "order-{headers.id}", Version: "{body.json.version}"}},
		Alerts:      alertsOfFull(),
		Approvals: Approvals{Expire: time.Hour, Rules: []ApprovalRule{
			{Actions: []string{"replay"}, Above: 100, Targets: []string{"payments*"}, Approver: "admin"},
		}},
		HTTP: httpOfFull(), Traces: Traces{Sample: 1}, StopTimeout: 20 * time.Second,
		Log: Log{Level: slog.LevelDebug, Format: "json"},
	}
	diffConfig(t, want, load(t, full, nil, nil))
}

func httpOfFull() HTTP {
	return HTTP{
		Listen: ":8181", URL: NewURL("https://watership.example"), TLS: ServerTLS{Cert: "http.pem", Key: "http.key"},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")},
		Auth: Auth{TokensFile: "/run/tokens", SessionKeyFile: "/run/sessions", OIDC: OIDC{
			Issuer: NewURL("https://login.example"), ClientID: "watership", ClientSecretFile: "/run/oidc", CA: "oidc.pem",
			Scopes: []string{"email", "groups"}, NameClaim: "name", RolesClaim: "realm_access.roles", Bearer: true,
			Roles: []RoleGrant{{Claim: "shop", Role: "operator", Bodies: true, BodyReasons: true, Originals: true, Queues: []string{"orders*"}, Exchanges: []string{"github"}}},
		}},
	}
}

func breakerOfFull() retry.Breaker {
	return retry.Breaker{
		Messages: -1, Within: time.Minute, First: 2 * time.Second, Cap: 10 * time.Minute, MaxWaits: 7, MaxWait: time.Hour, MaxAlike: -1,
	}
}

func TestDefaults(t *testing.T) {
	diffConfig(t, Config{
		Data: ".watership", Roles: role.All(),
		AMQP: AMQP{URL: NewURL("amqp://guest:guest@localhost:5672/"), ManagementURL: NewURL("http://guest:guest@localhost:15672")},
		Store: Store{
			URL: NewURL("http://localhost:9200"), Product: "auto", Stream: "watership-messages",
			Retention: Retention{Traffic: 30 * day, Failures: 90 * day},
		},
		Redact:   Redact{Unknown: "drop"},
		Topology: Topology{Prefix: "watership", QueueType: "quorum"},
		Tap:      Tap{WhenFull: "keep", Limit: 1_000_000},
		Retry: Retry{
			Default: "default", Policies: map[string]retry.Policy{"default": retry.Default()}, Deaths: []string{"rejected"},
			Breaker: retry.Breaker{}.WithDefaults(), Return: Return{Grace: 5 * time.Minute, Pause: 10 * time.Second, Timeout: 30 * time.Second},
		},
		Index:  Index{Batch: Batch{Events: 1000, Bytes: 5 << 20, Wait: 500 * time.Millisecond}, Memory: 64 << 20, Partitions: 1, PartitionKey: "routing_key", Body: Body{Text: true, JSON: true, MaxValues: 5000}},
		Alerts: Alerts{Interval: 30 * time.Second, GroupWait: 30 * time.Second, GroupInterval: 5 * time.Minute, RepeatInterval: 12 * time.Hour},

		Approvals: Approvals{Expire: 4 * time.Hour},

		HTTP:   HTTP{TLS: ServerTLS{HSTS: true}, Auth: Auth{OIDC: OIDC{Scopes: []string{"email"}, NameClaim: "email", RolesClaim: "groups"}}},
		Traces: Traces{Sample: 1}, Log: Log{Format: "text"}, StopTimeout: 30 * time.Second,
	}, load(t, "", nil, nil))
}

func TestFlagsBeforeEnvironmentBeforeFileBeforeDefaults(t *testing.T) {
	file := "source: file\nlog: {level: warn}\nindex: {batch: {events: 1, wait: 1s}, labels: [file]}\n"
	environ := []string{"WATERSHIP_SOURCE=environment", "WATERSHIP_LOG_LEVEL=error", "WATERSHIP_INDEX_BATCH_WAIT=", "WATERSHIP_INDEX_LABELS=a, b"}
	flags := map[string]string{"source": "flag"}
	c := load(t, file, environ, flags)
	got := []any{c.Source, c.Log.Level, c.Index.Batch.Events, c.Index.Batch.Wait, c.Index.Batch.Bytes, c.Index.Labels}
	want := []any{"flag", slog.LevelError, 1, time.Second, 5 << 20, []string{"a", "b"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	origins := map[string]string{}
	for _, s := range c.Describe() {
		origins[s.Key] = s.Origin.String()
	}
	for key, want := range map[string]string{
		"source": "--source", "log.level": "WATERSHIP_LOG_LEVEL", "index.batch.events": "w.yaml:3",
		"index.batch.bytes": "default", "amqp.management_url": "from amqp.url",
	} {
		if origins[key] != want {
			t.Errorf("%s is from %q, want %q", key, origins[key], want)
		}
	}
}

func TestStructuresFromTheEnvironment(t *testing.T) {
	c := load(t, full, []string{
		`WATERSHIP_ROUTES=[{queue: a, handler: {http: {url: "http://h/"}}}]`,
		`WATERSHIP_TAP_EXCHANGES=[{"name": "x", "type": "headers"}]`,
		`WATERSHIP_RETRY_POLICIES={none: {delays: [1s]}}`,
	}, nil)
	want := []Route{{Queue: "a", Handler: postTo("http://h/", 30*time.Second), Concurrency: 16, MaxDeliveries: 5, Retry: "none", Breaker: breakerOfFull()}}
	if diff := cmp.Diff(want, c.Routes, compareURLs); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	if got := c.Retry.Policies["none"].Delays; len(got) != 1 || len(c.Tap.Exchanges) != 1 {
		t.Errorf("got policy %v and tap %v", got, c.Tap)
	}
}

func TestPausesOfABreakerAreNeverBelowTheFirst(t *testing.T) {
	if got := load(t, "retry: {breaker: {first: 1h}}\n", nil, nil).Retry.Breaker.Cap; got != time.Hour {
		t.Errorf("got %s", got)
	}
}

// No deaths at all are another choice than the default.
func TestNoDeathsAreNotTheDefault(t *testing.T) {
	if deaths := load(t, "retry: {deaths: []}\n", nil, nil).Retry.Deaths; deaths == nil || len(deaths) != 0 {
		t.Errorf("got %#v, want an empty list", deaths)
	}
}

func TestManagementURLFollowsTheBroker(t *testing.T) {
	for amqp, want := range map[string]string{
		"amqp://a:p%40ss@rabbit:5673/vhost": "http://a:p%40ss@rabbit:15672",
		"amqps://a:b@rabbit/":               "https://a:b@rabbit:15671",
		"amqp://[::1]:5672":                 "http://[::1]:15672",
	} {
		c := load(t, "", []string{"WATERSHIP_AMQP_URL=" + amqp}, nil)
		if got := c.AMQP.ManagementURL.Reveal(); got != want {
			t.Errorf("of %s: got %s, want %s", amqp, got, want)
		}
	}
}

// Variables and flags must each belong to one key, though dots and underscores
// become the same in them.
func TestNamesAreUnambiguous(t *testing.T) {
	seen := map[string]string{}
	for _, key := range Keys() {
		for _, name := range []string{key.Variable(), key.Flag()} {
			if other, taken := seen[name]; taken {
				t.Errorf("%s is both %s and %s", name, other, key.Name)
			}
			seen[name] = key.Name
		}
		if key.Help == "" {
			t.Errorf("%s has no help", key.Name)
		}
	}
}

var compareURLs = cmp.AllowUnexported(URL{})

func diffConfig(t *testing.T, want, got Config) {
	t.Helper()
	options := []cmp.Option{compareURLs, cmpopts.IgnoreUnexported(Config{}), cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.Prefix{})}
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// toReceivers is a handler whose messages have their receivers.
func toReceivers() Handler {
	h := postTo("https://{headers.host}/{type}", 30*time.Second)
	h.HTTP.Method, h.HTTP.SetHeaders = "{headers.verb}", map[string]string{"Authorization": "Bearer {headers.token}"}
	h.HTTP.Hosts, h.HTTP.PrivateNetworks = []string{"*.example.com"}, []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16")}
	return h
}

func postTo(url string, timeout time.Duration) Handler {
	return Handler{HTTP: HTTPHandler{URL: NewURL(url), Timeout: timeout, MaxRetryAfter: time.Hour}}
}

func load(t *testing.T, file string, environ []string, flags map[string]string) Config {
	t.Helper()
	t.Chdir(t.TempDir())
	write(t, "w.yaml", file)
	c, err := Load(Sources{File: "w.yaml", Environ: environ, Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/watershipmq/watership/retry"
)

// fieldCase is a field of a structure, with a value that is refused.
type fieldCase struct {
	field string // as in the message; the structure is in front
	value string // YAML
	want  string // the value as it is shown, and the expectation
}

const nameExpected = "expected text of 1 to 255 bytes"

var name256 = strings.Repeat("n", 256)

// Each field of a route has a value that it refuses, with its exact message. The
// value stands on a line of its own.
func TestFieldsOfARouteRefuse(t *testing.T) {
	refuse(t, "routes:\n- queue: a\n  handler:\n    http: {url: 'http://h/'}\n  %s", "routes[0]", 5, []fieldCase{
		{"bind", "orders", `"orders": expected a list`},
		{"bind", "{exchange: a}", `expected a list`},
		{"bind", "[{exchange: ''}]", `bind[0].exchange: ` + nameExpected},
		{"bind", "[{exchange: " + name256 + "}]", `bind[0].exchange: "` + name256 + `": ` + nameExpected},
		{"bind", "[{exchange: a, key: " + name256 + "}]", `bind[0].key: "` + name256 + `": expected text of 0 to 255 bytes`},
		{"bind", "[{exchange: a, kee: b}]", `bind[0].kee: is not known; the nearest is routes[0].bind[0].key`},
		{"concurrency", "0", `"0": expected a whole number from 1 to 10000`},
		{"concurrency", "10001", `"10001": expected a whole number from 1 to 10000`},
		{"concurrency", "many", `"many": expected a whole number from 1 to 10000`},
		{"concurrency", "[1]", `"1": expected one value`},
		{"headers", "{limit: x}", "expected no handler beside it: the handler's response decides about the retries of a message"},
		{"max_deliveries", "1001", `"1001": expected a whole number from 0 to 1000`},
		{"retry", "''", `expected text of 1 to 200 bytes`},
		{"timeout", "5", `"5": ` + durationUpToADay},
		{"timeout", "25h", `"25h": ` + durationUpToADay},
		{"timeout", "-1s", `"-1s": ` + durationUpToADay},
		{"park", "yes", `"yes": expected true or false`},
		{"park", "TRUE", `"TRUE": expected true or false`},
		{"breaker", "off", `"off": expected fields such as messages`},
		{"breaker", "{messages: 1001}", `breaker.messages: "1001": expected a whole number from 0 to 1000`},
		{"breaker", "{within: 25h}", `breaker.within: "25h": ` + durationUpToADay},
		{"breaker", "{first: 0s}", `breaker.first: "0s": ` + durationUpToADay},
		{"breaker", "{cap: 1}", `breaker.cap: "1": ` + durationUpToADay},
		{"breaker", "{max_waits: -1}", `breaker.max_waits: "-1": expected a whole number from 0 to 1000000`},
		{"breaker", "{max_wait: 366d}", `breaker.max_wait: "366d": ` + durationUpToAYear},
		{"breaker", "{max_alike: 1.5}", `breaker.max_alike: "1.5": expected a whole number from 0 to 1000000`},
		{"breaker", "{max_waitz: 1}", `breaker.max_waitz: is not known; the nearest is routes[0].breaker.max_waits`},
		{"ordering", "{class: ordering}", `expected the class of errors whose messages wait, and the key of messages, such as {headers.account}`},
		{"ordering", "{key: '{headers.a}'}", `expected the class of errors whose messages wait, and the key of messages, such as {headers.account}`},
		{"ordering", "{class: a, key: account}", `ordering.key: "account": expected a field of the message, such as {headers.merchant}`},
		{"ordering", "{class: a, key: '{headers.a}', sequence: '1'}", `ordering.sequence: "1": expected a field of the message, such as {headers.merchant}`},
		{"ordering", "{class: a, key: '{headers.a}', within: 25h}", `ordering.within: "25h": expected a duration such as 10s, from 1s to 1d`},
		{"queues", "a", `is not known; the nearest is routes[0].queue`},
	})
}

// Each field of a rule of streams has a value that it refuses.
func TestFieldsOfAStreamRefuse(t *testing.T) {
	const fieldExpected = "expected a field of the message, such as {headers.merchant}"
	refuse(t, "streams:\n- %s", "streams[0]", 2, []fieldCase{
		{"id", "order", `"order": ` + fieldExpected},
		{"id", "''", fieldExpected},
		{"id", "{headers.id}", `expected text in quotes, as it begins with {`},
		{"id", "'{header.id}'", `"{header.id}": found {header.id}: expected {headers.NAME}, {body.json.NAME}, {body:/JSON/POINTER}, {exchange}, {routing_key}, {routing_key.1}, {message.id}, {correlation_id} or {type}`},
	})
	refuse(t, "streams:\n- id: '{headers.id}'\n  %s", "streams[0]", 3, []fieldCase{
		{"exchange", "''", nameExpected},
		{"exchange", "watership.events", `"watership.events": expected an exchange that is not Watership's`},
		{"key", name256, `"` + name256 + `": ` + nameExpected},
		{"version", "'1'", `"1": ` + fieldExpected},
		{"versions", "a", `is not known; the nearest is streams[0].version`},
	})
}

// A route without a handler has a policy for the dead letters of another consumer.
func TestFieldsThatNeedAHandler(t *testing.T) {
	const expected = "expected a handler beside it: without one, another program consumes the queue, and the route only has queue, retry, rules, headers, schema and park"
	refuse(t, "routes:\n- queue: a\n  %s", "routes[0]", 3, []fieldCase{
		{"bind", "[{exchange: a}]", expected},
		{"concurrency", "16", expected},
		{"ordering", "{class: a, key: '{headers.a}'}", expected},
		{"breaker", "{first: 1s}", expected},
		{"timeout", "1s", expected},
		{"max_deliveries", "5", expected},
		{"schema", "''", "expected text of 1 to 4096 bytes"},
		{"headers", "{limit: ''}", `headers.limit: ` + nameExpected},
		{"headers", "{limit: " + name256 + "}", `headers.limit: "` + name256 + `": ` + nameExpected},
		{"headers", "{retries: x}", `headers.retries: is not known; the nearest is routes[0].headers.limit`},
		{"headers", "x-retry", `"x-retry": expected fields such as limit`},
		{"handlr", "{}", `is not known; the nearest is routes[0].handler`},
	})
}

func TestFieldsOfAHandlerRefuse(t *testing.T) {
	const meanings = "expected handled, retry, poison or unavailable"
	refuse(t, "routes:\n- queue: a\n  handler:\n    http:\n      url: 'http://h/'\n      %s", "routes[0].handler.http", 6, []fieldCase{
		{"timeout", "0s", `"0s": ` + durationUpToADay},
		{"timeout", "{}", `expected one value`},
		{"max_retry_after", "2d", `"2d": ` + durationUpToADay},
		{"statuses", "retry", `"retry": expected meanings by status`},
		{"statuses", "[retry]", `"retry": expected meanings by status`},
		{"statuses", "{404: drop}", `statuses.404: "drop": ` + meanings},
		{"statuses", "{404: [poison]}", `statuses.404: "poison": expected one value`},
		{"statuses", "{199: poison}", `statuses.199: expected a status from 200 to 599, or 2xx, 3xx, 4xx or 5xx`},
		{"statuses", "{600: poison}", `statuses.600: expected a status from 200 to 599, or 2xx, 3xx, 4xx or 5xx`},
		{"statuses", "{4XX: poison}", `statuses.4XX: expected a status from 200 to 599, or 2xx, 3xx, 4xx or 5xx`},
		{"headers", "x-tenant", `"x-tenant": expected a list`},
		{"headers", "[[x-tenant]]", `headers[0]: "x-tenant": expected one value`},
		{"headers", "[x-tenant, 'a b']", `headers[1]: "a b": expected the name of a header, of letters, digits and dashes`},
		{"headers", "[x_tenant]", `headers[0]: "x_tenant": expected a name without _, which many servers take for a dash`},
		{"headers", "[Content-Type]", `headers[0]: "Content-Type": expected a header that is not about the connection, the body or Watership itself`},
		{"statuses", "{404: {}}", `statuses.404: expected means or class`},
		{"statuses", "{404: {verb: retry}}", `statuses.404.verb: is not known; the nearest is routes[0].handler.http.statuses.404.means`},
		{"answers", "{means: retry}", `expected a list`},
		{"answers", "[{means: retry}]", `answers[0]: expected status, header or field`},
		{"answers", "[{status: 404}]", `answers[0]: expected means or class`},
		{"answers", "[{status: 404, value: a, class: b}]", `answers[0]: expected a header or a field that has the value`},
		{"answers", "[{field: error, class: b}]", `answers[0].field: "error": expected a JSON pointer such as /error/code`},
		{"answers", "[{header: 'two words', class: b}]", `answers[0].header: "two words": expected the name of a header, of letters, digits and dashes`},
		{"answers", "[{status: 99, means: retry}]", `answers[0].status: "99": expected a status from 200 to 599, or 2xx, 3xx, 4xx or 5xx`},
		{"answers", "[{header: a, field: /b, class: c}]", `answers[0]: expected header or field, not both`},
		{"answers", "[{status: 404, means: drop}]", `answers[0].means: "drop": ` + meanings},
		{"status", "{}", `is not known; the nearest is routes[0].handler.http.statuses`},
		{"method", "GET", `"GET": expected POST, PUT, PATCH or DELETE`},
		{"method", "'{verb}'", `"{verb}": found {verb}: expected {headers.NAME}, {body.json.NAME}, {body:/JSON/POINTER}, {exchange}, {routing_key}, {routing_key.1}, {message.id}, {correlation_id} or {type}`},
		{"method", "{headers.verb}", `expected text in quotes, as it begins with {`},
		{"set_headers", "[a]", `expected values of headers by name`},
		{"set_headers", "{Host: a}", `set_headers.Host: expected a header that is not about the connection, the body or Watership itself`},
		{"set_headers", "{Content-Length: 1}", `set_headers.Content-Length: expected a header that is not about the connection, the body or Watership itself`},
		{"set_headers", "{webhook-id: a}", `set_headers.webhook-id: expected a header that is not about the connection, the body or Watership itself`},
		{"set_headers", "{'a b': a}", `set_headers.a b: expected the name of a header, of letters, digits and dashes`},
		{"set_headers", "{X-A: a, x-a: b}", `set_headers.x-a: expected each header once, in upper or lower case`},
		{"set_headers", `{X-A: "s3cret\r\nX-B: c"}`, `set_headers.X-A: "xxxxx": expected text on one line`},
		{"set_headers", "{X-A: 's3cret {a}'}", `set_headers.X-A: "xxxxx": found {a}: expected {headers.NAME}, {body.json.NAME}, {body:/JSON/POINTER}, {exchange}, {routing_key}, {routing_key.1}, {message.id}, {correlation_id} or {type}`},
		{"set_headers", "{X-A: {type}}", `set_headers.X-A: expected text in quotes, as it begins with {`},
		{"hosts", "[a]", `"a": expected nothing, as no field of a message makes the host of url`},
		{"private_networks", "[10.0.0.0/8]", `"10.0.0.0/8": expected nothing, as no field of a message makes the host of url`},
	})
}

func TestHostsOfMessagesAreRefused(t *testing.T) {
	const ofMessage = "routes:\n- queue: a\n  handler:\n    http:\n      url: '{headers.url}'\n"
	refuse(t, ofMessage+"      %s", "routes[0].handler.http", 6, []fieldCase{
		{"hosts", "['a/b']", `hosts[0]: "a/b": expected a host such as hooks.example.com, *.example.com, hooks.example.com:8443 or http://hooks.example.com, with other letters as xn--, or * for every name`},
		{"hosts", "[]", `expected the hosts to which requests may be sent, such as ["*.example.com"], as a field of the message makes the host of url`},
	})
	refuse(t, ofMessage+"      hosts: ['*']\n      %s", "routes[0].handler.http", 7, []fieldCase{
		{"private_networks", "[10.0.0.1/8]", `private_networks[0]: "10.0.0.1/8": expected a network such as 10.20.0.0/16 or fd00:20::/32`},
		{"private_networks", "['::ffff:10.0.0.0/104']", `private_networks[0]: "::ffff:10.0.0.0/104": expected a network such as 10.20.0.0/16 or fd00:20::/32`},
	})
}

func TestURLsOfAHandlerAreRefused(t *testing.T) {
	const example = "expected a URL such as http://user:password@host:port"
	refuse(t, "routes:\n- queue: a\n  handler:\n    http: {%s}", "routes[0].handler.http", 4, []fieldCase{
		{"url", "h", `"xxxxx": ` + example + ", with scheme http or https"},
		{"url", "'http://'", `"http://xxxxx": ` + example},
		{"url", "'amqp://h/'", `"amqp://h/": ` + example + ", with scheme http or https"},
		{"url", "'http://h:0/'", `"http://h:0/": ` + example + ", with a port from 1 to 65535"},
		{"url", "'http://h/#top'", `"http://xxxxx": ` + example + ", with # written as %23"},
		{"url", "'http://u:p%zz@h/'", `"http://xxxxx@h/": ` + example + ", with other characters in the password written as %XX"},
		{"url", "{headers.url}", `expected text in quotes, as it begins with {`},
		{"url", "'https://u:s3cret@{headers.host}/'", `"https://u:xxxxx@{headers.host}/": expected no login beside fields in the host: the message would choose who gets it; an Authorization can have fields`},
		{"url", "'https://u:s3cret@h/{id}'", `"https://u:xxxxx@h/{id}": found {id}: expected {headers.NAME}, {body.json.NAME}, {body:/JSON/POINTER}, {exchange}, {routing_key}, {routing_key.1}, {message.id}, {correlation_id} or {type}`},
		{"url", "['http://h/']", `"http://h/": expected one value`},
	})
}

func TestFieldsOfATapRefuse(t *testing.T) {
	refuse(t, "tap:\n  exchanges:\n  - name: orders\n    type: topic\n    %s", "tap.exchanges[0]", 5, []fieldCase{
		{"keys", "new", `"new": expected a list`},
		{"keys", "[[new]]", `keys[0]: "new": expected one value`},
		{"keys", "[a, " + name256 + "]", `keys[1]: "` + name256 + `": expected text of 0 to 255 bytes`},
		{"key", "a", `is not known; the nearest is tap.exchanges[0].keys`},
	})
	refuse(t, "tap:\n  exchanges:\n  - type: topic\n    %s", "tap.exchanges[0]", 4, []fieldCase{
		{"name", "''", nameExpected},
		{"name", name256, `"` + name256 + `": ` + nameExpected},
		{"name", "[a]", `"a": expected one value`},
	})
	refuse(t, "tap:\n  exchanges:\n  - name: orders\n    %s", "tap.exchanges[0]", 4, []fieldCase{
		{"type", "x-delayed-message", `"x-delayed-message": expected topic, fanout, direct or headers`},
		{"type", "Topic", `"Topic": expected topic, fanout, direct or headers`},
	})
}

// Each field of a rule has a value that it refuses, globally and in a route.
func TestFieldsOfARuleRefuse(t *testing.T) {
	for field, test := range map[string]struct{ file, want string }{
		"text":      {"retry.rules: [{name: a, class: c, text: '('}]", `w.yaml:1: retry.rules[0].text: "(": expected a regular expression up to 1000 bytes (RE2)`},
		"name":      {"retry.rules: [{class: c, text: a}]", `w.yaml:1: retry.rules[0].name: expected a name of 1 to 100 bytes`},
		"class":     {"retry.rules: [{name: a, text: a}]", `w.yaml:1: retry.rules[0].class: expected a class of 1 to 100 bytes`},
		"condition": {"retry.rules: [{name: a, class: c}]", `w.yaml:1: retry.rules[0].name: "a": expected a condition beside it: queue, headers, error_type or text`},
		"headers":   {"retry.rules: [{name: a, class: c, headers: gold}]", `w.yaml:1: retry.rules[0].headers: "gold": expected patterns of values by the names of headers, such as {x-tenant: acme-*}`},
		"unknown":   {"retry.rules: [{name: a, class: c, queue: q, error: x}]", `w.yaml:1: retry.rules[0].error: is not known; the nearest is retry.rules[0].name`},
		"twice":     {"retry.rules: [{name: a, class: c, queue: q}, {name: a, class: c, queue: r}]", `w.yaml:1: retry.rules[1].name: "a": expected each name once`},
		"a route":   {"routes: [{queue: q, rules: [{name: a, class: c, text: '('}]}]", `w.yaml:1: routes[0].rules[0].text: "(": expected a regular expression up to 1000 bytes (RE2)`},
	} {
		t.Chdir(t.TempDir())
		write(t, "w.yaml", test.file+"\n")
		if _, err := Load(Sources{File: "w.yaml"}); err == nil || err.Error() != test.want {
			t.Errorf("%s:\ngot  %v\nwant %s", field, err, test.want)
		}
	}
}

func TestFieldsOfAPolicyRefuse(t *testing.T) {
	refuse(t, "retry:\n  policies:\n    slow:\n      %s", "retry.policies.slow", 4, []fieldCase{
		{"delays", "1s", `"1s": expected a list`},
		{"delays", "[1s, soon]", `delays[1]: "soon": ` + delayExpected},
		{"delays", "[0s]", `delays[0]: "0s": ` + delayExpected},
		{"delays", "[50d]", `delays[0]: "50d": ` + delayExpected},
		{"first", "1.5ms", `"1.5ms": ` + delayExpected},
	})
	refuse(t, "retry:\n  policies:\n    slow:\n      first: 1s\n      %s", "retry.policies.slow", 5, []fieldCase{
		{"attempts", "0", `"0": expected a whole number from 1 to 10000`},
		{"attempts", "10001", `"10001": expected a whole number from 1 to 10000`},
	})
	refuse(t, "retry:\n  policies:\n    slow:\n      first: 1m\n      attempts: 3\n      %s", "retry.policies.slow", 6, []fieldCase{
		{"factor", "0.9", `"0.9": expected a number from 1 to 1000`},
		{"factor", "1001", `"1001": expected a number from 1 to 1000`},
		{"factor", "NaN", `"NaN": expected a number from 1 to 1000`},
		{"factor", "two", `"two": expected a number from 1 to 1000`},
		{"cap", "59s", `"59s": expected at least first, 1m0s`},
		{"cap", "1.0001s", `"1.0001s": ` + delayExpected},
		{"jitter", "1.1", `"1.1": expected a number from 0 to 1`},
		{"jitter", "-0.1", `"-0.1": expected a number from 0 to 1`},
		{"classes", "ordering", `"ordering": expected policies by name`},
		{"classes", "{ordering: {first: 1s}}", `classes.ordering.attempts: expected 1 to 10000`},
		{"classes", "{ordering: {delays: [x]}}", `classes.ordering.delays[0]: "x": ` + delayExpected},
		{"at", "03:00", `"03:00": expected a list`},
		{"at", "[03:00, 3:00]", `at[1]: expected an hour such as 03:00`},
		{"time_zone", "Berlin", `"Berlin": expected the name of a time zone, such as Europe/Berlin`},
		{"give_up_after", "366d", `"366d": ` + durationUpToAYear},
		{"spread", "25h", `"25h": ` + durationUpToADay},
		{"no_attempts", "sunday", `"sunday": expected a list`},
		{"no_attempts", "[{days: [sunday]}]", `no_attempts[0].days: "sunday": expected mon, tue, wed, thu, fri, sat or sun`},
		{"no_attempts", "[{days: [sun, day]}]", `no_attempts[0].days: "sun, day": expected mon, tue, wed, thu, fri, sat or sun`},
		{"no_attempts", "[{dates: 2026-02-30}]", `no_attempts[0].dates: "2026-02-30": expected a date such as 2026-12-24, or 2026-12-24..2026-12-31, of at most 31 days`},
		{"no_attempts", "[{from: 25:00, to: 06:00}]", `no_attempts[0].from: "25:00": expected an hour such as 22:00, or neither from nor to for whole days`},
		{"no_attempts", "[{from: 06:00, to: 05:00}, {from: 05:00, to: 06:00}]", `expected windows that leave time for attempts, at least once in 31 days`},
		{"no_attempts", "[{until: 05:00}]", `no_attempts[0].until: is not known; the nearest is retry.policies.slow.no_attempts[0].dates`},
		{"classes", "{ordering: {delays: [1s], no_attempts: [{days: [sun]}]}}", `classes.ordering.no_attempts: expected none within a class`},
		{"classes", "{ordering: {delays: [1s], clases: {}}}", `classes.ordering.clases: is not known; the nearest is retry.policies.slow.classes.ordering.delays`},
		{"backoff", "2", `is not known; the nearest is retry.policies.slow.factor`},
	})
}

// refuse loads each field in a file, and compares the one mistake that there is.
// Where the message is about a part of the field, it begins with the field.
func refuse(t *testing.T, file, structure string, line int, cases []fieldCase) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, test := range cases {
		write(t, "w.yaml", fmt.Sprintf(file, test.field+": "+test.value)+"\n")
		key := structure + "." + test.field + ": "
		if strings.HasPrefix(test.want, test.field+".") || strings.HasPrefix(test.want, test.field+"[") {
			key = structure + "."
		}
		want := fmt.Sprintf("w.yaml:%d: %s%s", line, key, test.want)
		if _, err := Load(Sources{File: "w.yaml"}); err == nil || err.Error() != want {
			t.Errorf("%s: %s:\ngot  %v\nwant %s", test.field, test.value, err, want)
		}
	}
}

// Each field of a route is read, alone.
func TestFieldsOfARoute(t *testing.T) {
	breaker := func(b retry.Breaker) func(*Route) {
		return func(r *Route) { r.Breaker = b.Or(retry.Breaker{}.WithDefaults()) }
	}
	http := func(set func(*HTTPHandler)) func(*Route) {
		return func(r *Route) { set(&r.Handler.HTTP) }
	}
	for field, change := range map[string]func(*Route){
		"concurrency: 1":                      func(r *Route) { r.Concurrency = 1 },
		"concurrency: 10000":                  func(r *Route) { r.Concurrency = 10_000 },
		"timeout: 1d":                         func(r *Route) { r.Timeout = 24 * time.Hour },
		"timeout: 1ms":                        func(r *Route) { r.Timeout = time.Millisecond },
		"park: true":                          func(r *Route) { r.Park = true },
		"park: false":                         func(*Route) {},
		"park: ~":                             func(*Route) {},
		"retry: default":                      func(*Route) {},
		"bind: []":                            func(*Route) {},
		"bind: [{exchange: x}]":               func(r *Route) { r.Bind = []Bind{{Exchange: "x"}} },
		"bind: [{exchange: x, key: 'a.#'}]":   func(r *Route) { r.Bind = []Bind{{Exchange: "x", Key: "a.#"}} },
		"breaker: {}":                         func(*Route) {},
		"breaker: {messages: 0}":              breaker(retry.Breaker{Messages: -1}),
		"breaker: {messages: 1000}":           breaker(retry.Breaker{Messages: 1000}),
		"breaker: {within: 1s}":               breaker(retry.Breaker{Within: time.Second}),
		"breaker: {first: 2s}":                breaker(retry.Breaker{First: 2 * time.Second}),
		"breaker: {cap: 2m}":                  breaker(retry.Breaker{Cap: 2 * time.Minute}),
		"breaker: {max_waits: 0}":             breaker(retry.Breaker{MaxWaits: -1}),
		"breaker: {max_wait: 365d}":           breaker(retry.Breaker{MaxWait: 365 * day}),
		"breaker: {max_alike: 7}":             breaker(retry.Breaker{MaxAlike: 7}),
		"handler.http.timeout: 1s":            http(func(h *HTTPHandler) { h.Timeout = time.Second }),
		"handler.http.max_retry_after: 1s":    http(func(h *HTTPHandler) { h.MaxRetryAfter = time.Second }),
		"handler.http.statuses: {}":           http(func(h *HTTPHandler) { h.Statuses = map[string]HTTPOutcome{} }),
		"handler.http.statuses: {5xx: retry}": http(func(h *HTTPHandler) { h.Statuses = map[string]HTTPOutcome{"5xx": {Means: "retry"}} }),
		"handler.http.statuses: {200: poison, 404: handled, 503: unavailable}": http(func(h *HTTPHandler) {
			h.Statuses = map[string]HTTPOutcome{"200": {Means: "poison"}, "404": {Means: "handled"}, "503": {Means: "unavailable"}}
		}),
		"handler.http.statuses: {425: {class: ordering}, 5xx: {means: unavailable, class: slow}}": http(func(h *HTTPHandler) {
			h.Statuses = map[string]HTTPOutcome{"425": {Class: "ordering"}, "5xx": {Means: "unavailable", Class: "slow"}}
		}),
		"handler.http.answers: [{status: 4xx, field: /error/code, value: '17', class: ordering}, {header: X-Duplicate, means: handled}]": http(func(h *HTTPHandler) {
			h.Answers = []HTTPAnswer{
				{Status: "4xx", Field: "/error/code", Value: "17", HTTPOutcome: HTTPOutcome{Class: "ordering"}},
				{Header: "X-Duplicate", HTTPOutcome: HTTPOutcome{Means: "handled"}},
			}
		}),
		"handler.http.method: PUT": http(func(h *HTTPHandler) { h.Method = "PUT" }),
		"handler.http.set_headers: {x-a: b, Content-Type: '{type}'}": http(func(h *HTTPHandler) {
			h.SetHeaders = map[string]string{"X-A": "b", "Content-Type": "{type}"}
		}),
		"handler.http.headers: []":             http(func(h *HTTPHandler) { h.Headers = []string{} }),
		"handler.http.headers: [X-A, baggage]": http(func(h *HTTPHandler) { h.Headers = []string{"X-A", "baggage"} }),
	} {
		want := Route{Queue: "q", Handler: postTo("http://h/", 30*time.Second), Concurrency: 16, MaxDeliveries: 5, Retry: "default", Breaker: retry.Breaker{}.WithDefaults()}
		change(&want)
		http := "url: http://h/"
		if inHandler, found := strings.CutPrefix(field, "handler.http."); found {
			field, http = "", http+", "+inHandler
		}
		got := load(t, fmt.Sprintf("routes:\n- queue: q\n  handler: {http: {%s}}\n  %s\n", http, field), nil, nil).Routes
		if diff := cmp.Diff([]Route{want}, got, compareURLs, cmp.FilterPath(isBind, equateEmpty)); diff != "" {
			t.Errorf("%s%s (-want +got):\n%s", field, http, diff)
		}
	}
}

func isBind(p cmp.Path) bool { return p.Last().String() == ".Bind" }

var equateEmpty = cmp.Comparer(func(a, b []Bind) bool {
	return len(a) == len(b) && (len(a) == 0 || cmp.Equal(a, b))
})

// Each field of a policy is read, alone and in a class.
func TestFieldsOfAPolicy(t *testing.T) {
	for text, want := range map[string]retry.Policy{
		"delays: []":                                {Delays: []time.Duration{}},
		"delays: [1ms]":                             {Delays: []time.Duration{time.Millisecond}},
		"delays: [1s, 1s, 1d]":                      {Delays: []time.Duration{time.Second, time.Second, day}},
		"delays: [4294967295ms]":                    {Delays: []time.Duration{retry.MaxDelay}},
		"first: 1s, attempts: 1":                    {First: time.Second, Attempts: 1},
		"first: 1s, attempts: 10000":                {First: time.Second, Attempts: 10_000},
		"first: 1s, attempts: 2, factor: 1":         {First: time.Second, Attempts: 2, Factor: 1},
		"first: 1s, attempts: 2, factor: 1.5e1":     {First: time.Second, Attempts: 2, Factor: 15},
		"first: 1s, attempts: 2, cap: 1s":           {First: time.Second, Attempts: 2, Cap: time.Second},
		"first: 1s, attempts: 2, jitter: 0":         {First: time.Second, Attempts: 2},
		"first: 1s, attempts: 2, jitter: 1":         {First: time.Second, Attempts: 2, Jitter: 1},
		"first: 1s, attempts: 2, jitter: 0.25":      {First: time.Second, Attempts: 2, Jitter: 0.25},
		"delays: [1s], factor: ~, jitter: , cap: ~": {Delays: []time.Duration{time.Second}},
		"at: [03:00, '22:30']":                      {At: []string{"03:00", "22:30"}},
		"delays: [1s], at: [03:00]":                 {Delays: []time.Duration{time.Second}, At: []string{"03:00"}},
		"delays: [], give_up_after: 3d":             {Delays: []time.Duration{}, GiveUpAfter: 3 * day},
	} {
		file := "retry.policies: {slow: {" + text + "}, outer: {delays: [], classes: {inner: {" + text + "}}}}\n"
		policies := load(t, file, nil, nil).Retry.Policies
		if diff := cmp.Diff(want, policies["slow"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if diff := cmp.Diff(want, policies["outer"].Classes["inner"]); diff != "" {
			t.Errorf("%s in a class (-want +got):\n%s", text, diff)
		}
	}
}

// The windows of a policy, their spread and its time zone hold for all classes.
func TestWindowsOfAPolicy(t *testing.T) {
	file := "retry.policies: {slow: {delays: [], spread: 5m, time_zone: Europe/Berlin, no_attempts: [{days: [sat, sun]}, {dates: 2026-12-24..2026-12-26, from: 22:00, to: 06:00}]}}\n"
	want := retry.Policy{
		Delays: []time.Duration{}, Spread: 5 * time.Minute, TimeZone: "Europe/Berlin",
		NoAttempts: []retry.Window{{Days: []string{"sat", "sun"}}, {Dates: "2026-12-24..2026-12-26", From: "22:00", To: "06:00"}},
	}
	if diff := cmp.Diff(want, load(t, file, nil, nil).Retry.Policies["slow"]); diff != "" {
		t.Error(diff)
	}
}

package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// keyCase is one key with a value that is accepted and one that is not.
type keyCase struct {
	good  string // as a variable or a flag has it
	shown string // by Describe, if other than good
	bad   string
	want  string // the mistake in bad, with its value, after origin and key
	with  string // other keys that good needs, as YAML
}

const (
	durationUpToADay  = "expected a duration such as 10s, from 1ms to 1d"
	durationUpToAYear = "expected a duration such as 10s, from 1ms to 365d"
	pathExpected      = "expected text of 0 to 4096 bytes"
	listenExpected    = "expected host:port such as 127.0.0.1:8181, or nothing"
	retentionExpected = "expected a duration such as 30d or 12h, of at least 1h, or 0 for ever"
	pageExpected      = "expected a URL such as https://jaeger.example/trace/{trace_id}, with this field once, behind the host, and without a login"
	delayExpected     = "expected a duration such as 10s, in whole milliseconds, from 1ms to 4294967295ms (49 days)"
)

var longPath = strings.Repeat("p", 4097)

// keyCases has an entry for every key of one value or one list.
var keyCases = map[string]keyCase{
	"source": {good: "shop", bad: strings.Repeat("s", 201), want: `"` + strings.Repeat("s", 201) + `": expected text of 0 to 200 bytes`},
	"data":   {good: "/var/lib/watership", bad: longPath, want: `"` + longPath + `": expected text of 1 to 4096 bytes`},

	"amqp.url": {
		good: "amqps://shop@rabbit/prod", bad: "amqp://rabbit:0/",
		want: `"amqp://rabbit:0/": expected a URL such as amqp://user:password@host:port, with a port from 1 to 65535, or embedded://`,
	},
	"amqp.listen":                    {good: "127.0.0.1:5673", with: "amqp.url: embedded://", bad: "localhost", want: `"localhost": ` + listenExpected},
	"roles":                          {good: "retry, due", bad: "boss", want: `"boss": expected routes, retry, due, poison, index, subscriptions or alerts`},
	"alerts.interval":                {good: "1m", bad: "1ms", want: `"1ms": expected a duration such as 10s, from 1s to 1h`},
	"alerts.group_wait":              {good: "1m", bad: "2h", want: `"2h": expected a duration such as 10s, from 1s to 1h`},
	"alerts.group_interval":          {good: "1m", bad: "2d", want: `"2d": expected a duration such as 10s, from 1s to 1d`},
	"alerts.repeat_interval":         {good: "1d", bad: "1s", want: `"1s": expected a duration such as 10s, from 1m to 365d`},
	"approvals.expire":               {good: "1h", bad: "30s", want: `"30s": expected a duration such as 10s, from 1m to 30d`},
	"subscriptions.private_networks": {good: "10.20.0.0/16", bad: "10.20.0.1/16", want: `"10.20.0.1/16": expected a network such as 10.20.0.0/16 or fd00:20::/32`},
	"amqp.management_url":            {good: "https://rabbit:15671", bad: "rabbit", want: `"xxxxx": expected a URL such as http://user:password@host:port, with scheme http or https`},
	"amqp.password_file":             {good: "/run/amqp", with: "amqp.url: amqp://shop@rabbit", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"amqp.state_key_file":            {good: "/run/keys", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"amqp.tls.ca":                    {good: "ca.pem", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"amqp.tls.cert":                  {good: "cert.pem", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"amqp.tls.key":                   {good: "key.pem", bad: longPath, want: `"` + longPath + `": ` + pathExpected},

	"store.url": {
		good: "sqlite:a.db", bad: "sqlite:",
		want: `"sqlite:": expected sqlite: and the path of a file, such as sqlite:watership.db or sqlite:/var/lib/watership.db`,
	},
	"store.product":             {good: "opensearch", bad: "solr", want: `"solr": expected auto, elasticsearch or opensearch`},
	"store.username":            {good: "shop", with: "store.password_file: /run/store", bad: strings.Repeat("s", 1001), want: `"` + strings.Repeat("s", 1001) + `": expected text of 0 to 1000 bytes`},
	"store.password_file":       {good: "/run/store", with: "store.username: shop", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"store.api_key_file":        {good: "/run/key", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"store.tls.ca":              {good: "ca.pem", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"store.tls.cert":            {good: "cert.pem", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"store.tls.key":             {good: "key.pem", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"store.stream":              {good: "shop-messages", bad: "metrics-shop", want: `"metrics-shop": expected a name that does not begin with metrics-, which Elasticsearch keeps for its own data streams`},
	"redact.hash_key_file":      {good: "/run/hash", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"redact.original_keys_file": {good: "/run/originals", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"redact.subject_keys_file":  {good: "/keys/subjects", with: "store.url: sqlite:a.db", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"redact.unknown":            {good: "keep", bad: "hide", want: `"hide": expected drop or keep`},
	"store.retention.traffic":   {good: "12h", bad: "59m", want: `"59m": ` + retentionExpected},
	"store.retention.failures":  {good: "0", bad: "36501d", want: `"36501d": ` + retentionExpected},
	"topology.prefix":           {good: "shop.messages", bad: ".shop", want: `".shop": expected up to 200 letters, digits, dots, dashes and underscores, without amq. in front, and not amq`},
	"topology.queue_type":       {good: "classic", bad: "stream", want: `"stream": expected quorum or classic`},

	"tap.when_full":           {good: "drop_oldest", bad: "drop", want: `"drop": expected keep or drop_oldest`},
	"tap.queue_type":          {good: "classic", bad: "stream", want: `"stream": expected quorum or classic`},
	"tap.limit":               {good: "5000", bad: "0", want: `"0": expected a whole number from 1 to 1000000000`},
	"retry.default":           {good: "slow", with: "retry.policies: {slow: {delays: [1m]}}", bad: "slow", want: `"slow": expected a policy of retry.policies: default`},
	"retry.deaths":            {good: "rejected, expired", bad: "dropped", want: `"dropped": expected rejected, expired, maxlen or delivery_limit`},
	"retry.breaker.messages":  {good: "0", bad: "1001", want: `"1001": expected a whole number from 0 to 1000`},
	"retry.breaker.within":    {good: "1m", bad: "0s", want: `"0s": ` + durationUpToADay},
	"retry.breaker.first":     {good: "2s", bad: "25h", want: `"25h": ` + durationUpToADay},
	"retry.breaker.cap":       {good: "10m", bad: "1", want: `"1": ` + durationUpToADay},
	"retry.breaker.max_waits": {good: "7", bad: "1000001", want: `"1000001": expected a whole number from 0 to 1000000`},
	"retry.breaker.max_wait":  {good: "2d", bad: "366d", want: `"366d": ` + durationUpToAYear},
	"retry.breaker.max_alike": {good: "3", bad: "x", want: `"x": expected a whole number from 0 to 1000000`},
	"retry.return.grace":      {good: "1h", bad: "0s", want: `"0s": ` + durationUpToAYear},
	"retry.return.pause":      {good: "30s", bad: "1.5ms", want: `"1.5ms": ` + delayExpected},
	"retry.return.timeout":    {good: "5s", bad: "2d", want: `"2d": ` + durationUpToADay},

	"index.batch.events":            {good: "2000", bad: "100001", want: `"100001": expected a whole number from 1 to 100000`},
	"index.batch.bytes":             {good: "1MB", bad: "101MiB", want: `"101MiB": expected a size such as 5MiB, from 64KiB to 100MiB`},
	"index.batch.wait":              {good: "1s", bad: "61s", want: `"61s": expected a duration such as 10s, from 1ms to 1m`},
	"index.memory":                  {good: "256MiB", bad: "1MiB", want: `"1MiB": expected a size such as 5MiB, from 8MiB to 16384MiB`},
	"index.time_headers":            {good: "timestamp, sent_at", bad: "", want: `expected text of 1 to 255 bytes that is not blank`},
	"index.partitions":              {good: "4", bad: "65", want: `"65": expected a whole number from 1 to 64`},
	"index.partition_key":           {good: "headers.tenant", bad: "tenant", want: `"tenant": expected routing_key, message_id or headers.NAME, with a name of 1 to 100 bytes`},
	"index.labels":                  {good: "tenant, region", bad: "", want: `expected text of 1 to 255 bytes that is not blank`},
	"index.numeric_labels":          {good: "amount", bad: strings.Repeat("n", 256), want: `"` + strings.Repeat("n", 256) + `": expected text of 1 to 255 bytes`},
	"index.body.text":               {good: "false", bad: "yes", want: `"yes": expected true or false`},
	"index.body.json":               {good: "false", bad: "1", want: `"1": expected true or false`},
	"index.body.max_values":         {good: "100", bad: "-1", want: `"-1": expected a whole number from 1 to 1000000`},
	"fingerprint.ignore_headers":    {good: "retries, attempt", bad: "", want: `expected text of 1 to 255 bytes that is not blank`},
	"fingerprint.fold_dead_letters": {good: "true", bad: "yes", want: `"yes": expected true or false`},
	"fingerprint.fold_types":        {good: "true", bad: "yes", want: `"yes": expected true or false`},
	"stop_timeout":                  {good: "20s", bad: "20", want: `"20": ` + durationUpToADay},
	"http.listen":                   {good: ":8181", bad: ":65536", want: `":65536": ` + listenExpected},
	"traces.endpoint":               {good: "http://collector:4318", bad: "collector:4318", want: `"collector:4318": expected a URL such as http://localhost:4318, without a login, which belongs into traces.headers_file`},
	"traces.headers_file":           {good: "/run/headers", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"traces.sample":                 {good: "0.1", bad: "2", want: `"2": expected a number from 0 to 1`},
	"traces.page":                   {good: "https://jaeger.example/trace/{trace_id}", bad: "https://jaeger.example/{trace}", want: `"https://jaeger.example/{trace}": ` + pageExpected},
	"kibana.url":                    {good: "https://kibana.example/s/shop", bad: "https://a:b@kibana.example", want: `"https://a:xxxxx@kibana.example": expected a URL such as https://kibana.example, without a login`},
	"http.url":                      {good: "https://watership.example", bad: "https://a.example/b", want: `"https://a.example/b": expected a URL such as https://watership.example, without a path`},
	"http.trusted_proxies":          {good: "10.0.0.0/24", bad: "10.0.0.1", want: `"10.0.0.1": expected a network such as 10.20.0.0/16 or fd00:20::/32`},
	"http.tls.cert":                 {good: "cert.pem", with: "http.tls.key: key.pem", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"http.tls.key":                  {good: "key.pem", with: "http.tls.cert: cert.pem", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"http.tls.hsts":                 {good: "false", bad: "no", want: `"no": expected true or false`},
	"http.auth.tokens_file":         {good: "/run/tokens", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"http.auth.session_key_file":    {good: "/run/sessions", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"http.auth.oidc.issuer": {
		good: "https://login.example", with: "http: {url: 'http://a', auth: {oidc: {client_id: a, roles: [{claim: a, role: viewer}]}}}",
		bad: "http://login.example", want: `"http://login.example": expected a URL with https, or http on this machine`,
	},
	"http.auth.oidc.client_id": {
		good: "watership", with: "http: {url: 'http://a', auth: {oidc: {issuer: 'https://a', roles: [{claim: a, role: viewer}]}}}",
		bad: strings.Repeat("s", 1001), want: `"` + strings.Repeat("s", 1001) + `": expected text of 0 to 1000 bytes`,
	},
	"http.auth.oidc.client_secret_file": {good: "/run/oidc", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"http.auth.oidc.ca":                 {good: "ca.pem", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"http.auth.oidc.scopes":             {good: "email, groups", bad: "", want: `expected text of 1 to 200 bytes`},
	"http.auth.oidc.name_claim":         {good: "name", bad: strings.Repeat("n", 201), want: `"` + strings.Repeat("n", 201) + `": expected text of 1 to 200 bytes`},
	"http.auth.oidc.roles_claim":        {good: "realm_access.roles", bad: strings.Repeat("n", 201), want: `"` + strings.Repeat("n", 201) + `": expected text of 1 to 200 bytes`},
	"http.auth.oidc.bearer":             {good: "true", bad: "yes", want: `"yes": expected true or false`},
	"server":                            {good: "https://watership.example/ops", bad: "https://user:secret@a", want: `"https://user:xxxxx@a": expected a URL such as https://watership.example, without a user, since the token is in token_file`},
	"token_file":                        {good: "/run/token", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"server_ca":                         {good: "ca.pem", bad: longPath, want: `"` + longPath + `": ` + pathExpected},
	"server_reason":                     {good: "ticket 7", bad: strings.Repeat("n", 1001), want: `"` + strings.Repeat("n", 1001) + `": expected text of 0 to 1000 bytes`},
	"server_cleartext":                  {good: "true", bad: "yes", want: `"yes": expected true or false`},
	"log.level":                         {good: "debug", bad: "trace", want: `"trace": expected debug, info, warn or error`},
	"log.format":                        {good: "json", bad: "logfmt", want: `"logfmt": expected text or json`},
}

// structureCases has an entry for every key that holds a structure.
var structureCases = map[string]keyCase{
	"tap.exchanges": {
		good: "[{name: orders, type: direct, keys: [new]}]", shown: "[0].name=orders [0].type=direct [0].keys=new",
		bad: "orders", want: `"orders": expected a list`,
	},
	"routes": {
		good:  "[{queue: a, handler: {http: {url: http://h/}}, retry: default, park: true}]",
		shown: "[0].queue=a [0].handler.http.url=http://h/ [0].handler.http.timeout=30s [0].handler.http.keep_answers=false [0].handler.http.max_retry_after=1h [0].concurrency=16 [0].retry=default [0].max_deliveries=5 [0].park=true",
		bad:   "{}", want: "expected a list",
	},
	"alerts.rules": {
		good: "[{name: many, on: poisoned, by: class, more_than: 5, within: 10m, labels: {team: shop}}]", with: "alerts.receivers: [{name: a, slack: {url_file: /u}}]",
		shown: "[0].name=many [0].on=poisoned [0].by=class [0].more_than=5 [0].within=10m [0].severity=warning [0].labels.team=shop",
		bad:   "many", want: `"many": expected a list`,
	},
	"approvals.rules": {
		good: "[{actions: [replay, edit], above: 100, roles: [operator], targets: [payments*], approver: admin}]", with: "http.auth.tokens_file: /run/tokens",
		shown: "[0].actions=replay, edit [0].above=100 [0].roles=operator [0].targets=payments* [0].approver=admin",
		bad:   "many", want: `"many": expected a list`,
	},
	"alerts.receivers": {
		good:  "[{name: hook, webhook: {url: 'https://h/s3cret?key=s3cret', set_headers: {X-Key: s3cret}}}]",
		shown: "[0].name=hook [0].webhook.url=https://h/s3cret?key=xxxxx [0].webhook.content_type=application/json [0].webhook.set_headers.X-Key=xxxxx",
		bad:   "hook", want: `"hook": expected a list`,
	},
	"store.retention.rules": {
		good:  "[{exchange: shop, key: 'order.#', keep: forever}, {stream: '*', keep: 730d}, {label: {x-tenant: acme}, keep: 36h}]",
		shown: "[0].exchange=shop [0].key=order.# [0].keep=forever [1].stream=* [1].keep=730d [2].label.x-tenant=acme [2].keep=36h",
		bad:   "forever", want: `"forever": expected a list`,
	},
	"redact.rules": {
		good:  "[{exchange: shop, key: 'order.#', header: x-customer, as: customer, subject: true}, {json: customer.email}, {text: user_id}, {pattern: mail}]",
		shown: "[0].exchange=shop [0].key=order.# [0].header=x-customer [0].subject=true [0].as=customer [1].json=customer.email [2].text=user_id [3].pattern=mail",
		with:  "redact: {hash_key_file: /run/hash, original_keys_file: /run/originals}", bad: "mail", want: `"mail": expected a list`,
	},
	"streams": {
		good:  "[{exchange: shop, key: 'order.#', id: 'order-{headers.id}', version: '{headers.version}'}, {id: '{routing_key.2}'}]",
		shown: "[0].exchange=shop [0].key=order.# [0].id=order-{headers.id} [0].version={headers.version} [1].id={routing_key.2}",
		bad:   "order", want: `"order": expected a list`,
	},
	"http.auth.oidc.roles": {
		good:  "[{claim: shop, role: operator, queues: [orders*]}]",
		shown: "[0].claim=shop [0].role=operator [0].bodies=false [0].body_reasons=false [0].originals=false [0].queues=orders*",
		with:  "http: {url: 'http://a', auth: {oidc: {issuer: 'https://a', client_id: a}}}",
		bad:   "shop", want: `"shop": expected a list`,
	},
	"retry.rules": {
		good:  "[{name: no-stock, queue: orders, text: 'no stock', class: stock}]",
		shown: "[0].name=no-stock [0].queue=orders [0].text=no stock [0].class=stock",
		bad:   "stock", want: `"stock": expected a list`,
	},
	"retry.policies": {
		good: "{slow: {delays: [1m, 2h]}}", shown: ".slow.delays=1m, 2h .default.delays=1s, 10s, 30s",
		bad: "slow", want: `"slow": expected policies by name`,
	},
}

func TestEveryKeyHasCases(t *testing.T) {
	for _, key := range Keys() {
		cases := keyCases
		if key.Form == Structure {
			cases = structureCases
		}
		if _, found := cases[key.Name]; !found {
			t.Errorf("%s has no case", key.Name)
		}
	}
	if got, want := len(keyCases)+len(structureCases), len(Keys()); got != want {
		t.Errorf("%d cases for %d keys", got, want)
	}
}

// writeKey returns sources with one value of a key, by its place, and the origin
// that they give it.
func writeKey(t *testing.T, key Key, value string, place Place, others string) (Sources, string) {
	t.Helper()
	sources := Sources{File: "w.yaml"}
	lines := []string{others}
	origin := "w.yaml:2"
	switch place {
	case File:
		lines = append(lines, fmt.Sprintf("%s: %s", key.Name, inYAML(key, value)))
	case Environment:
		sources.Environ, origin = []string{key.Variable() + "=" + value}, key.Variable()
	case Flag:
		sources.Flags, origin = map[string]string{key.Name: value}, "--"+key.Flag()
	}
	write(t, "w.yaml", strings.Join(lines, "\n")+"\n")
	return sources, origin
}

func inYAML(key Key, value string) string {
	switch key.Form {
	case Structure:
		return value
	case List:
		return "['" + strings.Join(strings.Split(value, ", "), "', '") + "']"
	}
	return "'" + value + "'"
}

// Each key is read from the file, from its variable and from its flag, and
// Describe lists it with that origin.
func TestEveryKeyFromEverySource(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, key := range Keys() {
		test, found := keyCases[key.Name]
		if !found {
			continue
		}
		for _, place := range []Place{File, Environment, Flag} {
			sources, origin := writeKey(t, key, test.good, place, test.with)
			c, err := Load(sources)
			if err != nil {
				t.Errorf("%s from %s: %v", key.Name, origin, err)
				continue
			}
			i := slices.IndexFunc(c.Describe(), func(s Setting) bool { return s.Key == key.Name })
			if i < 0 || c.Describe()[i].Value != cmp.Or(test.shown, test.good) || c.Describe()[i].Origin.String() != origin {
				t.Errorf("%s = %s from %s is not in %v", key.Name, test.good, origin, c.Describe())
			}
			if !c.IsSet(key.Name) {
				t.Errorf("%s from %s is not set", key.Name, origin)
			}
		}
	}
}

// A structure is read from every source, too, and each of its fields is listed.
func TestEveryStructureFromEverySource(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, key := range Keys() {
		test, found := structureCases[key.Name]
		if !found {
			continue
		}
		for _, place := range []Place{File, Environment, Flag} {
			sources, origin := writeKey(t, key, test.good, place, test.with)
			c, err := Load(sources)
			if err != nil {
				t.Errorf("%s from %s: %v", key.Name, origin, err)
				continue
			}
			var shown []string
			for _, s := range c.Describe() {
				if field, below := strings.CutPrefix(s.Key, key.Name); below && !strings.HasPrefix(field, "_") {
					shown = append(shown, field+"="+s.Value)
				}
			}
			if got := strings.Join(shown, " "); got != test.shown {
				t.Errorf("%s from %s:\ngot  %s\nwant %s", key.Name, origin, got, test.shown)
			}
		}
	}
}

// A bad value is reported with its origin, its key, itself and the values that are
// possible, and with nothing else.
func TestEveryKeyRefusesABadValueFromEverySource(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, key := range Keys() {
		test, found := keyCases[key.Name]
		if !found {
			test = structureCases[key.Name]
		}
		for _, place := range []Place{File, Environment, Flag} {
			if place == Environment && test.bad == "" {
				continue // which counts as not set
			}
			sources, origin := writeKey(t, key, test.bad, place, "")
			path := key.Name
			if key.Form == List {
				path += "[0]"
			}
			want := fmt.Sprintf("%s: %s: %s", origin, path, test.want)
			if _, err := Load(sources); err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		}
	}
}

// A list or a structure in place of one value, and one value in place of a list,
// are refused for every key.
func TestEveryKeyRefusesAnotherForm(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, key := range Keys() {
		for _, value := range []string{"[[x]]", "{x: y}", "x"} {
			want := "expected one value"
			switch {
			case (key.Form == Scalar || key.Form == URLs) && value == "x":
				continue
			case (key.Form == List || key.Form == URLs) && value == "[[x]]":
			case key.Form == List, key.Form == Structure && key.Name != "retry.policies":
				want = "expected a list"
			case key.Name == "retry.policies":
				want = "expected policies by name"
			}
			if key.Form == Structure && value != "x" {
				continue // whose fields other tests have
			}
			write(t, "w.yaml", key.Name+": "+value+"\n")
			_, err := Load(Sources{File: "w.yaml"})
			if err == nil || !strings.HasPrefix(err.Error(), "w.yaml:1: "+key.Name) || !strings.HasSuffix(err.Error(), ": "+want) {
				t.Errorf("%s: %s: got %v, want %q", key.Name, value, err, want)
			}
		}
	}
}

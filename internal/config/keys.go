package config

import (
	"strings"
	"time"
)

// Form is the syntax of a key in the environment and in flags, which hold only text.
type Form int

// A key holds one value, a list written with commas, or a structure as YAML.
const (
	Scalar Form = iota
	List
	Structure
)

// Key is a setting.
type Key struct {
	Name    string // as in the file: amqp.url
	Form    Form
	Default string // as it would be written; empty where there is none
	Help    string // one line

	read read
}

// Variable returns the name of the key's environment variable.
func (k Key) Variable() string {
	return variablePrefix + strings.ToUpper(strings.ReplaceAll(k.Name, ".", "_"))
}

// Flag returns the name of the key's command line flag, without the dashes.
func (k Key) Flag() string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(k.Name)
}

// Keys lists every key.
func Keys() []Key { return keys(new(Config)) }

// Variables lists every environment variable of Watership.
func Variables() []string {
	names := []string{FileVariable}
	for _, key := range Keys() {
		names = append(names, key.Variable())
	}
	return names
}

// keys lists every key with the parser of its field in c.
func keys(c *Config) []Key {
	return append(serverKeys(c), workKeys(c)...)
}

func serverKeys(c *Config) []Key {
	return []Key{
		{Name: "source", Help: "name of the RabbitMQ system in every event (default: its cluster name and vhost)", read: value(name(0, 200), &c.Source)},
		{Name: "data", Default: ".watership", Help: "folder of the embedded broker and store", read: value(name(1, 4096), &c.Data)},
		{Name: "amqp.url", Default: "amqp://guest:guest@localhost:5672/", Help: "RabbitMQ, or embedded:// for a broker in the process of serve", read: value(brokerAddress, &c.AMQP.URL)},
		{Name: "amqp.listen", Help: "host:port at which the embedded broker listens (default: 127.0.0.1:5672, or another port where that is taken)", read: value(listenAddress, &c.AMQP.Listen)},
		{Name: "amqp.management_url", Help: "RabbitMQ's HTTP API (default: from amqp.url)", read: value(address("http", "https"), &c.AMQP.ManagementURL)},
		{Name: "amqp.password_file", Help: "file with the password of the login in amqp.url", read: value(path, &c.AMQP.PasswordFile)},
		{Name: "amqp.state_key_file", Help: "file with the keys, one a line, that sign the state of messages (default: it is not signed)", read: value(path, &c.AMQP.StateKeyFile)},
		{Name: "amqp.tls.ca", Help: "file with the certificates to trust for RabbitMQ (default: the system's)", read: value(path, &c.AMQP.TLS.CA)},
		{Name: "amqp.tls.cert", Help: "file with our certificate for RabbitMQ", read: value(path, &c.AMQP.TLS.Cert)},
		{Name: "amqp.tls.key", Help: "file with the key of our certificate for RabbitMQ", read: value(path, &c.AMQP.TLS.Key)},
		{Name: "store.url", Default: "http://localhost:9200", Help: "Elasticsearch, or sqlite:PATH for a file", read: value(storeAddress, &c.Store.URL)},
		{Name: "store.username", Help: "login at Elasticsearch", read: value(name(0, 1000), &c.Store.Username)},
		{Name: "store.password_file", Help: "file with the password of store.username", read: value(path, &c.Store.PasswordFile)},
		{Name: "store.api_key_file", Help: "file with an encoded API key of Elasticsearch", read: value(path, &c.Store.APIKeyFile)},
		{Name: "store.tls.ca", Help: "file with the certificates to trust for Elasticsearch (default: the system's)", read: value(path, &c.Store.TLS.CA)},
		{Name: "store.tls.cert", Help: "file with our certificate for Elasticsearch", read: value(path, &c.Store.TLS.Cert)},
		{Name: "store.tls.key", Help: "file with the key of our certificate for Elasticsearch", read: value(path, &c.Store.TLS.Key)},
		{Name: "store.stream", Default: "watership-messages", Help: "first part of the names of the data streams", read: value(streamName, &c.Store.Stream)},
		{Name: "store.retention.traffic", Default: "30d", Help: "how long published and handled messages are kept; 0 is for ever", read: value(retention, &c.Store.Retention.Traffic)},
		{Name: "store.retention.failures", Default: "90d", Help: "how long everything else is kept; 0 is for ever", read: value(retention, &c.Store.Retention.Failures)},
		{Name: "topology.prefix", Default: "watership", Help: "first part of the names of our exchanges and queues", read: value(prefix, &c.Topology.Prefix)},
		{Name: "topology.queue_type", Default: "quorum", Help: "type of our queues: quorum or classic", read: value(oneOf("quorum", "classic"), &c.Topology.QueueType)},
	}
}

func workKeys(c *Config) []Key {
	return []Key{
		{Name: "tap.exchanges", Form: Structure, Help: "exchanges whose every message is recorded", read: each(readTap, &c.Tap.Exchanges)},
		{Name: "tap.when_full", Default: "keep", Help: "what happens while the store takes less than is published: keep or drop_oldest", read: value(oneOf("keep", "drop_oldest"), &c.Tap.WhenFull)},
		{Name: "tap.limit", Default: "1000000", Help: "most messages that drop_oldest keeps", read: value(wholeNumber(1, 1_000_000_000), &c.Tap.Limit)},
		{Name: "routes", Form: Structure, Help: "queues with their bindings, handler and retry policy", read: each(readRoute, &c.Routes)},
		{Name: "retry.default", Default: "default", Help: "retry policy where none is named", read: value(name(1, 200), &c.Retry.Default)},
		{Name: "retry.policies", Form: Structure, Help: "retry policies by name, each with delays that are listed or that grow", read: readPolicies(&c.Retry.Policies)},
		{Name: "retry.deaths", Form: List, Default: "rejected", Help: "reasons for which a dead letter is tried again: rejected, expired, maxlen, delivery_limit", read: list(oneOf("rejected", "expired", "maxlen", "delivery_limit"), &c.Retry.Deaths)},
		{Name: "retry.breaker.messages", Default: "5", Help: "different messages that fail in a row before a route pauses; 0: it never does", read: value(countOrNone(1000), &c.Retry.Breaker.Messages)},
		{Name: "retry.breaker.within", Default: "5m", Help: "time within which they fail", read: value(duration(time.Millisecond, day), &c.Retry.Breaker.Within)},
		{Name: "retry.breaker.first", Default: "1s", Help: "pause before the first probe of a paused route; each further pause is twice as long", read: value(duration(time.Millisecond, day), &c.Retry.Breaker.First)},
		{Name: "retry.breaker.cap", Help: "longest pause before a probe (default: 1m, or retry.breaker.first where that is longer)", read: value(duration(time.Millisecond, day), &c.Retry.Breaker.Cap)},
		{Name: "retry.breaker.max_waits", Default: "1000", Help: "how often a message may wait for an unavailable service before its failures are attempts", read: value(countOrNone(1_000_000), &c.Retry.Breaker.MaxWaits)},
		{Name: "retry.breaker.max_wait", Default: "1d", Help: "how long a message may wait for an unavailable service before its failures are attempts", read: value(duration(time.Millisecond, 365*day), &c.Retry.Breaker.MaxWait)},
		{Name: "retry.breaker.max_alike", Default: "20", Help: "retry.breaker.max_waits where the service answers and many messages fail alike", read: value(countOrNone(1_000_000), &c.Retry.Breaker.MaxAlike)},
		{Name: "retry.return.grace", Default: "5m", Help: "how long a queue may be gone before messages that are due for it are given up", read: value(duration(time.Millisecond, 365*day), &c.Retry.Return.Grace)},
		{Name: "retry.return.pause", Default: "10s", Help: "wait before another try at a queue that is full, gone or silent", read: value(delay, &c.Retry.Return.Pause)},
		{Name: "retry.return.timeout", Default: "30s", Help: "how long a queue may take to confirm a message", read: value(duration(time.Millisecond, day), &c.Retry.Return.Timeout)},
		{Name: "index.batch.events", Default: "1000", Help: "most events in one request to the store", read: value(wholeNumber(1, 100_000), &c.Index.Batch.Events)},
		{Name: "index.batch.bytes", Default: "5MiB", Help: "most bytes in one request to the store", read: value(size(64<<10, 100<<20), &c.Index.Batch.Bytes)},
		{Name: "index.batch.wait", Default: "500ms", Help: "longest wait for a request to the store to fill", read: value(duration(time.Millisecond, time.Minute), &c.Index.Batch.Wait)},
		{Name: "index.memory", Default: "64MiB", Help: "most bytes that the indexer has in flight", read: value(size(8<<20, 16<<30), &c.Index.Memory)},
		{Name: "index.labels", Form: List, Help: "headers that can be searched as labels.NAME", read: list(label, &c.Index.Labels)},
		{Name: "index.numeric_labels", Form: List, Help: "headers that can be searched as numbers, with ranges, as numeric_labels.NAME", read: list(label, &c.Index.NumericLabels)},
		{Name: "index.body.text", Default: "true", Help: "whether the words of bodies can be searched", read: value(boolean, &c.Index.Body.Text)},
		{Name: "index.body.json", Default: "true", Help: "whether the JSON fields of bodies can be searched", read: value(boolean, &c.Index.Body.JSON)},
		{Name: "index.body.max_values", Default: "5000", Help: "most values that the JSON of a body may have to be searched by field", read: value(wholeNumber(1, 1_000_000), &c.Index.Body.MaxValues)},
		{Name: "stop_timeout", Default: "30s", Help: "how long serve waits for handlers at its end", read: value(duration(time.Millisecond, day), &c.StopTimeout)},
		{Name: "http.listen", Help: "host:port of health checks and metrics (default: off)", read: value(listenAddress, &c.HTTP.Listen)},
		{Name: "log.level", Default: "info", Help: "debug, info, warn or error", read: value(logLevel, &c.Log.Level)},
		{Name: "log.format", Default: "text", Help: "text or json", read: value(oneOf("text", "json"), &c.Log.Format)},
	}
}

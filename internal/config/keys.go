package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/render/quantity"
)

// Form is the syntax of a key in the environment and in flags, which hold only text.
type Form int

// A key holds one value, a list written with commas, a structure as YAML, or one URL or a list
// of URLs with commas between.
const (
	Scalar Form = iota
	List
	Structure
	URLs
)

// Key is a setting.
type Key struct {
	Name    string // as in the file: amqp.url
	Form    Form
	Default string // as it would be written; empty where none exists
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
	return slices.Concat(serverKeys(c), messageKeys(c), alertKeys(&c.Alerts), approvalKeys(&c.Approvals), httpKeys(c), traceKeys(&c.Traces), clientKeys(c), []Key{
		{Name: "kibana.url", Help: "address at which browsers find Kibana, for links in the console (default: no links)", read: scalar(kibanaAddress, &c.Kibana.URL)},
		{Name: "log.level", Default: "info", Help: "debug, info, warn or error", read: scalar(logLevel, &c.Log.Level)},
		{Name: "log.format", Default: "text", Help: "text or json", read: scalar(oneOf("text", "json"), &c.Log.Format)},
	})
}

// serverKeys lists the keys of the connections to servers.
func serverKeys(c *Config) []Key {
	return []Key{
		{Name: "source", Help: "name of the RabbitMQ system in every event (default: its cluster name and vhost)", read: scalar(boundedText(0, 200), &c.Source)},
		{Name: "data", Default: ".watership", Help: "data folder of the embedded broker and store", read: scalar(boundedText(1, 4096), &c.Data)},
		{Name: "roles", Form: List, Default: strings.Join(roleNames(), ","), Help: "parts of Watership that serve runs: " + strings.Join(roleNames(), ", "), read: scalars(roleName, &c.Roles)},
		{Name: "amqp.url", Form: URLs, Default: "amqp://guest:guest@localhost:5672/", Help: "URL of RabbitMQ, or of each node of a cluster; or embedded:// for an embedded broker", read: server(brokerAddress, &c.AMQP.URL)},
		{Name: "amqp.listen", Help: "listen address of the embedded broker, host:port (default: 127.0.0.1:5672, or a free port if that is in use)", read: scalar(listenAddress, &c.AMQP.Listen)},
		{Name: "amqp.management_url", Form: URLs, Help: "URL of RabbitMQ's management API, or of each node's (default: derived from amqp.url)", read: server(serverAddress("http", "https"), &c.AMQP.ManagementURL)},
		{Name: "amqp.password_file", Help: "file with the password of the login in amqp.url", read: scalar(path, &c.AMQP.PasswordFile)},
		{Name: "amqp.state_key_file", Help: "file with the keys that sign the state of messages, one per line (default: not signed)", read: scalar(path, &c.AMQP.StateKeyFile)},
		{Name: "amqp.tls.ca", Help: "PEM file with the certificate authorities to trust for RabbitMQ (default: the system's)", read: scalar(path, &c.AMQP.TLS.CA)},
		{Name: "amqp.tls.cert", Help: "PEM file with the client certificate for RabbitMQ", read: scalar(path, &c.AMQP.TLS.Cert)},
		{Name: "amqp.tls.key", Help: "PEM file with the key of the client certificate for RabbitMQ", read: scalar(path, &c.AMQP.TLS.Key)},
		{Name: "store.url", Form: URLs, Default: "http://localhost:9200", Help: "URL of Elasticsearch or OpenSearch, or of each node of a cluster; or sqlite:PATH for a file", read: server(storeAddress, &c.Store.URL)},
		{Name: "store.product", Default: "auto", Help: "elasticsearch or opensearch; auto: what the server says that it is", read: scalar(oneOf("auto", "elasticsearch", "opensearch"), &c.Store.Product)},
		{Name: "store.username", Help: "user of Elasticsearch", read: scalar(boundedText(0, 1000), &c.Store.Username)},
		{Name: "store.password_file", Help: "file with the password of store.username", read: scalar(path, &c.Store.PasswordFile)},
		{Name: "store.api_key_file", Help: "file with an encoded API key of Elasticsearch", read: scalar(path, &c.Store.APIKeyFile)},
		{Name: "store.tls.ca", Help: "PEM file with the certificate authorities to trust for Elasticsearch (default: the system's)", read: scalar(path, &c.Store.TLS.CA)},
		{Name: "store.tls.cert", Help: "PEM file with the client certificate for Elasticsearch", read: scalar(path, &c.Store.TLS.Cert)},
		{Name: "store.tls.key", Help: "PEM file with the key of the client certificate for Elasticsearch", read: scalar(path, &c.Store.TLS.Key)},
		{Name: "store.stream", Default: "watership-messages", Help: "prefix of the names of the data streams", read: scalar(streamName, &c.Store.Stream)},
		{Name: "store.retention.traffic", Default: "30d", Help: "retention of published and handled events; 0: for ever", read: scalar(retentionPeriod, &c.Store.Retention.Traffic)},
		{Name: "store.retention.failures", Default: "90d", Help: "retention of all other events; 0: for ever", read: scalar(retentionPeriod, &c.Store.Retention.Failures)},
		{Name: "store.retention.rules", Form: Structure, Help: "other retentions of published messages, by exchange, key, stream or label", read: structures(readKeepRule, (*[]eventstore.KeepRule)(&c.Store.Retention.Rules))},
		{Name: "redact.rules", Form: Structure, Help: "values that are replaced by hashes before events are stored, by exchange and key: of a header, a JSON member, a text or a pattern; subject: true is the id of a person, whom erase makes unreadable", read: structures(readRedactRule, &c.Redact.Rules)},
		{Name: "redact.hash_key_file", Help: "file with the keys of these hashes, one per line; rules need it", read: scalar(path, &c.Redact.HashKeyFile)},
		{Name: "redact.original_keys_file", Help: "file with the keys of the encrypted originals of redacted messages, one per line (default: originals are not kept)", read: scalar(path, &c.Redact.OriginalKeysFile)},
		{Name: "redact.subject_keys_file", Help: "SQLite file for the keys of subjects, which Watership makes (default: beside the file of the store)", read: scalar(path, &c.Redact.SubjectKeysFile)},
		{Name: "redact.unknown", Default: "drop", Help: "bodies that rules cannot examine: drop replaces the whole body by a hash, keep stores it", read: scalar(oneOf("drop", "keep"), &c.Redact.Unknown)},
		{Name: "topology.prefix", Default: "watership", Help: "prefix of the names of Watership's exchanges and queues", read: scalar(topologyPrefix, &c.Topology.Prefix)},
		{Name: "topology.queue_type", Default: "quorum", Help: "type of Watership's queues: quorum or classic", read: scalar(oneOf("quorum", "classic"), &c.Topology.QueueType)},
	}
}

// clientKeys lists the keys of commands that go through the API of a server.
func clientKeys(c *Config) []Key {
	return []Key{
		{Name: "server", Help: "URL of a watership serve: commands go through its API instead of to RabbitMQ and the store", read: scalar(apiAddress, &c.Server.URL)},
		{Name: "token_file", Help: "file with the token for server, from watership token create", read: scalar(path, &c.Server.TokenFile)},
		{Name: "server_ca", Help: "PEM file with the certificate authorities to trust for server (default: the system's)", read: scalar(path, &c.Server.CA)},
		{Name: "server_reason", Help: "why bodies are read through server, for the record, if the token needs a reason", read: scalar(boundedText(0, 1000), &c.Server.Reason)},
		{Name: "server_cleartext", Default: "false", Help: "send the token to server without TLS, where others can read it", read: scalar(boolean, &c.Server.Cleartext)},
	}
}

// messageKeys lists the keys of the tap, routes, retries and the indexer.
func messageKeys(c *Config) []Key {
	return []Key{
		{Name: "tap.exchanges", Form: Structure, Help: "exchanges whose messages are recorded", read: structures(readTap, &c.Tap.Exchanges)},
		{Name: "tap.when_full", Default: "keep", Help: "index queue while the store is slower than publishers: keep all messages, or drop_oldest", read: scalar(oneOf("keep", "drop_oldest"), &c.Tap.WhenFull)},
		{Name: "tap.queue_type", Default: "", Help: "type of the index queue: classic keeps the order of messages with priorities, for a RabbitMQ of one node; default: topology.queue_type", read: scalar(oneOf("quorum", "classic"), &c.Tap.QueueType)},
		{Name: "tap.limit", Default: "1000000", Help: "maximum length of the index queue with drop_oldest", read: scalar(wholeNumber(1, 1_000_000_000), &c.Tap.Limit)},
		{Name: "routes", Form: Structure, Help: "queues with their bindings, handler and retry policy", read: structures(readRoute, &c.Routes)},
		{Name: "subscriptions.private_networks", Form: List, Help: "networks that URLs of subscriptions may lead to, beside the internet", read: scalars(network, &c.Subscriptions.PrivateNetworks)},
		{Name: "retry.default", Default: "default", Help: "retry policy of routes without one", read: scalar(boundedText(1, 200), &c.Retry.Default)},
		{Name: "retry.policies", Form: Structure, Help: "retry policies by name, with listed or growing delays", read: readPolicies(readPolicy, &c.Retry.Policies)},
		{Name: "retry.rules", Form: Structure, Help: "classes of errors by queue, headers, type and text", read: structures(readRule, &c.Retry.Rules)},
		{Name: "retry.deaths", Form: List, Default: "rejected", Help: "reasons of dead letters that are retried: rejected, expired, maxlen, delivery_limit", read: scalars(oneOf("rejected", "expired", "maxlen", "delivery_limit"), &c.Retry.Deaths)},
		{Name: "retry.breaker.messages", Default: "5", Help: "number of different messages that fail in a row before a route is paused; 0: never", read: scalar(countOrOff(1000), &c.Retry.Breaker.Messages)},
		{Name: "retry.breaker.within", Default: "5m", Help: "time within which these messages fail", read: scalar(duration(time.Millisecond, day), &c.Retry.Breaker.Within)},
		{Name: "retry.breaker.first", Default: "1s", Help: "pause before the first probe of a paused route; doubles with each probe", read: scalar(duration(time.Millisecond, day), &c.Retry.Breaker.First)},
		{Name: "retry.breaker.cap", Help: "maximum pause before a probe (default: 1m, or retry.breaker.first if that is longer)", read: scalar(duration(time.Millisecond, day), &c.Retry.Breaker.Cap)},
		{Name: "retry.breaker.max_waits", Default: "1000", Help: "number of times that a message waits for an unavailable service before failures count as attempts", read: scalar(countOrOff(1_000_000), &c.Retry.Breaker.MaxWaits)},
		{Name: "retry.breaker.max_wait", Default: "1d", Help: "time that a message waits for an unavailable service before failures count as attempts", read: scalar(duration(time.Millisecond, 365*day), &c.Retry.Breaker.MaxWait)},
		{Name: "retry.breaker.max_alike", Default: "20", Help: "max_waits if the service answers and many messages fail with the same error", read: scalar(countOrOff(1_000_000), &c.Retry.Breaker.MaxAlike)},
		{Name: "retry.return.grace", Default: "5m", Help: "time for which a queue may be missing before messages for it become poison", read: scalar(duration(time.Millisecond, 365*day), &c.Retry.Return.Grace)},
		{Name: "retry.return.pause", Default: "10s", Help: "pause before the next attempt at a queue that is full, missing or does not confirm", read: scalar(queueTTL, &c.Retry.Return.Pause)},
		{Name: "retry.return.timeout", Default: "30s", Help: "time-out of a queue's publisher confirm", read: scalar(duration(time.Millisecond, day), &c.Retry.Return.Timeout)},
		{Name: "index.batch.events", Default: strconv.Itoa(eventstore.DefaultBatchEvents), Help: "maximum number of events in a bulk request", read: scalar(wholeNumber(1, 100_000), &c.Index.Batch.Events)},
		{Name: "index.batch.bytes", Default: fmt.Sprintf("%dMiB", eventstore.DefaultBatchBytes>>20), Help: "maximum size of a bulk request", read: scalar(size(64<<10, 100<<20), &c.Index.Batch.Bytes)},
		{Name: "index.batch.wait", Default: quantity.FormatDuration(eventstore.DefaultBatchWait), Help: "maximum wait for a bulk request to fill", read: scalar(duration(time.Millisecond, time.Minute), &c.Index.Batch.Wait)},
		{Name: "index.memory", Default: "64MiB", Help: "memory limit of messages that the indexer has in flight", read: scalar(size(8<<20, 16<<30), &c.Index.Memory)},
		{Name: "index.partitions", Default: "1", Help: "number of index queues that share the copies of messages, by the plugin rabbitmq_consistent_hash_exchange", read: scalar(wholeNumber(1, maxPartitions), &c.Index.Partitions)},
		{Name: "index.partition_key", Default: "routing_key", Help: "what copies of one index queue have in common, whose order is kept: routing_key, message_id or headers.NAME", read: scalar(partitionKey, &c.Index.PartitionKey)},
		{Name: "index.labels", Form: List, Help: "headers that are indexed as labels.NAME", read: scalars(headerName, &c.Index.Labels)},
		{Name: "index.numeric_labels", Form: List, Help: "numeric headers that are indexed as numeric_labels.NAME, for ranges", read: scalars(headerName, &c.Index.NumericLabels)},
		{Name: "index.time_headers", Form: List, Help: "headers with the time of the publish, for messages whose timestamp property has none", read: scalars(headerName, &c.Index.TimeHeaders)},
		{Name: "index.body.text", Default: "true", Help: "index the words of bodies (body.text)", read: scalar(boolean, &c.Index.Body.Text)},
		{Name: "index.body.json", Default: "true", Help: "index the JSON fields of bodies (body.json)", read: scalar(boolean, &c.Index.Body.JSON)},
		{Name: "index.body.max_values", Default: "5000", Help: "maximum number of values in a JSON body that is indexed by field", read: scalar(wholeNumber(1, 1_000_000), &c.Index.Body.MaxValues)},
		{Name: "fingerprint.ignore_headers", Form: List, Help: "headers that do not tell messages apart, such as a consumer's counter of retries", read: scalars(headerName, &c.Fingerprint.IgnoreHeaders)},
		{Name: "fingerprint.fold_dead_letters", Default: "false", Help: "record a message that came back through a dead-letter exchange of its consumers as the same message", read: scalar(boolean, &c.Fingerprint.FoldDeadLetters)},
		{Name: "fingerprint.fold_types", Default: "false", Help: "ignore the types of numbers and texts in headers, which consumers in other languages change when they publish a message again", read: scalar(boolean, &c.Fingerprint.FoldTypes)},
		{Name: "streams", Form: Structure, Help: "where messages have the id and the version of their stream, such as an order", read: structures(readStream, &c.Streams)},
		{Name: "stop_timeout", Default: "30s", Help: "time for which serve waits for running handlers when it stops", read: scalar(duration(time.Millisecond, day), &c.StopTimeout)},
	}
}

// Package config reads the configuration of Watership: from flags, environment
// variables and a YAML file, in this order of precedence, over defaults. All
// mistakes are reported at once, each with its key, where it stands, its value
// and what was expected. Passwords are never printed.
package config

import (
	"log/slog"
	"time"

	"github.com/watershipmq/watership/retry"
)

// Config is everything that can be set. Load fills in the defaults, so a field
// is never empty except where its comment says so.
type Config struct {
	// Source names the RabbitMQ system in every event, so that several can share
	// a store. Empty: the cluster's name and the vhost.
	Source string

	// Data is the folder in which embedded parts keep what they have, and through
	// which commands find a Watership that runs on them. Default: .watership.
	Data string

	AMQP     AMQP
	Store    Store
	Topology Topology
	Tap      Tap

	// Routes are the queues that are consumed, each name once. None is possible:
	// then messages are only recorded and replayed.
	Routes []Route

	Retry Retry
	Index Index
	HTTP  HTTP
	Log   Log

	// StopTimeout is how long serve waits at its end for handlers; messages of those
	// that have not finished go back to their queues. Default: 30s.
	StopTimeout time.Duration

	settings []Setting
	keysSet  []string // sorted
}

// AMQP says where RabbitMQ is.
type AMQP struct {
	// URL holds login, host and vhost; amqp or amqps. Or it is Embedded: a broker
	// in the process of serve, which other commands find through Config.Data.
	// Default: amqp://guest:guest@localhost:5672/.
	URL URL

	// Listen is the host:port at which the embedded broker listens. Empty:
	// 127.0.0.1:5672, or another port where that is taken.
	Listen string

	// ManagementURL is RabbitMQ's HTTP API. Default: the host and login of URL, on
	// port 15672, or 15671 with TLS.
	ManagementURL URL

	// PasswordFile holds the password of URL's login, for URL and ManagementURL.
	// Empty: they say it themselves.
	PasswordFile string

	// StateKeyFile holds the keys that sign what travels with messages, one a line; see
	// schemas.ParseStateKeys. Empty: it is not signed.
	StateKeyFile string

	// TLS is for amqps, and for ManagementURL with https.
	TLS TLS
}

// TLS names files in PEM. Zero: certificates that the system trusts.
type TLS struct {
	CA   string // whom to trust; empty: whom the system trusts
	Cert string // our own certificate, and its Key; empty: none
	Key  string
}

// Store says where events are kept.
type Store struct {
	// URL is Elasticsearch's, http or https; or sqlite:PATH, see URL.File. Default:
	// http://localhost:9200.
	URL URL

	// Stream is the first part of the names of the two data streams, NAME-traffic
	// and NAME-failures. Default: watership-messages.
	Stream string

	Retention Retention

	// Username with PasswordFile, or APIKeyFile, whose content is the encoded form
	// of a key; a login may be part of URL instead. Empty: none.
	Username     string
	PasswordFile string
	APIKeyFile   string

	TLS TLS // for https
}

// Retention says how long events are kept; 0 is for ever. An event that has gone
// can be neither found nor replayed. FormatDuration writes it as Elasticsearch
// reads it.
type Retention struct {
	Traffic  time.Duration // published and handled messages; default 30d
	Failures time.Duration // all else, far fewer; default 90d
}

// Topology says how our own exchanges and queues are made.
type Topology struct {
	// Prefix begins their names. Changing it later leaves the old ones, and the
	// messages in them, behind. Default: watership.
	Prefix string

	// QueueType is quorum, which survives the loss of a node and costs a
	// replicated log a queue, or classic. Default: quorum.
	QueueType string
}

// Tap lists the exchanges whose every message is copied to the store.
type Tap struct {
	Exchanges []TapExchange

	// WhenFull says what happens while the store takes less than is published:
	// keep lets the broker's disk fill, drop_oldest drops the oldest copies beyond
	// Limit and records the gap. Publishers never notice. Default: keep.
	WhenFull string

	// Limit is how many copies drop_oldest keeps, in messages; two queues keep as
	// many each. Default: 1000000.
	Limit int
}

// TapExchange is one exchange that is tapped. Each of its messages is routed
// once more, and stored.
type TapExchange struct {
	Name string
	Type string // topic, fanout, direct or headers: what it is on the server

	// Keys are the binding keys. Without, a topic exchange is tapped whole ("#"),
	// and a direct exchange by the keys that others bind, for which the management
	// API is asked. Others have none.
	Keys []string
}

// Route is a queue, its bindings, its handler and its retry policy.
type Route struct {
	Queue   string
	Bind    []Bind // none: the queue is bound by others
	Handler Handler

	// Concurrency is how many messages are handled at a time; 1 keeps their order.
	// Each occupies memory and one call of the handler. Default: 16.
	Concurrency int

	// Retry names a policy in Retry.Policies. Default: Retry.Default.
	Retry string

	// Breaker says when the route pauses, and for how long its messages wait.
	// Default, of each field: Retry.Breaker.
	Breaker retry.Breaker

	// Timeout is of one attempt. What the handler does is over then, and the
	// attempt has failed. 0, the default: none but the handler's own.
	Timeout time.Duration

	// Park keeps a copy of each message that is given up in the queue NAME.poison.
	// Default: false.
	Park bool
}

// Bind is a binding from an exchange, which must exist, to a route's queue.
type Bind struct {
	Exchange string
	Key      string // may be empty
}

// Handler says what is done with a route's messages.
type Handler struct {
	HTTP HTTPHandler
}

// HTTPHandler posts each message to a service.
type HTTPHandler struct {
	URL     URL           // required
	Timeout time.Duration // of one call; default 30s

	// Statuses say what answers mean, by status (404) or class of statuses (4xx):
	// handled, retry, poison or unavailable. None: what HTTP says of them.
	Statuses map[string]string

	// Headers of a message that become headers of the request under their own names.
	// Each other is sent as Watership-Header-NAME. Default: traceparent, tracestate.
	Headers []string

	// MaxRetryAfter caps what an answer's Retry-After may ask for. Default: 1h.
	MaxRetryAfter time.Duration
}

// Retry holds the retry policies.
type Retry struct {
	// Default names the policy of routes that name none, and of dead letters of
	// other consumers. Default: default.
	Default string

	// Policies by name. The policy named default is retry.Default unless it is
	// given. Each delay has a queue of its own.
	Policies map[string]retry.Policy

	// Deaths are RabbitMQ's reasons for which a dead letter is tried again:
	// rejected, expired, maxlen, delivery_limit. One of any other reason is
	// poison at once. Default: rejected. None, as [] in the file: all are.
	Deaths []string

	// Breaker is that of routes, as far as they have none. Default:
	// retry.Breaker.WithDefaults. Where the file has 0 messages or waits, there is
	// -1: none.
	Breaker retry.Breaker

	Return Return
}

// Return says what becomes of messages that are due for a queue which is gone, full
// or silent.
type Return struct {
	Grace   time.Duration // how long a queue may be gone before they are given up; default 5m
	Pause   time.Duration // between two tries, in whole milliseconds; default 10s
	Timeout time.Duration // for a queue's confirm of a message; default 30s
}

// Index says how events are written to the store.
type Index struct {
	Batch Batch

	// Memory bounds what the indexer has in flight, in bytes, however large its
	// messages are; a single message may be larger. Default: 64MiB.
	Memory int

	// Labels are headers that are also keywords labels.NAME, NumericLabels those
	// that are also numbers numeric_labels.NAME, where ranges can be asked for.
	// Each is one more field in every index. Default: none.
	Labels        []string
	NumericLabels []string

	Body Body
}

// Batch bounds one request to the store; whichever bound is reached first sends it.
type Batch struct {
	Events int           // default 1000
	Bytes  int           // of the documents; default 5MiB
	Wait   time.Duration // since the first event; how late an event can be found; default 500ms
}

// Body says what of a message's body can be searched. Whole bodies are stored
// and replayed either way. Both together cost Elasticsearch a quarter more CPU.
type Body struct {
	Text bool // its words; default true
	JSON bool // its JSON fields; default true

	MaxValues int // that the JSON may have to be searched by field; default 5000
}

// HTTP is the listener for health checks and metrics: /healthz, /readyz, /metrics.
type HTTP struct {
	Listen string // host:port; empty, the default, is off
}

// Log says what is logged, to standard error.
type Log struct {
	Level  slog.Level // debug, info, warn or error; default info
	Format string     // text or json; default text
}

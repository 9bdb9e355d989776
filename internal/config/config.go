// Package config reads the configuration of Watership: from flags, environment
// variables and a YAML file, in this order of precedence, over defaults. All
// mistakes are reported at once, each with its origin, its key, its value and the
// values that are possible. Passwords are never printed.
package config

import (
	"crypto/sha256"
	"log/slog"
	"net/netip"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/topology/role"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/streamid"
)

// Config holds every setting. Load sets the defaults, so a field is only empty if
// its comment allows it. Parts of a program that may change it get a Clone.
type Config struct {
	// Source names the RabbitMQ system in every event, so that several can share
	// a store. Empty: the cluster's name and the vhost.
	Source string

	// Data is the folder of the embedded broker and store, by which commands find
	// the process that runs them. Default: .watership.
	Data string

	// Roles are the parts of Watership that serve runs, each once; one process or several
	// may have a role. Default: all.
	Roles []role.Role

	AMQP     AMQP
	Store    Store
	Redact   Redact
	Topology Topology
	Tap      Tap

	// Routes are the queues to consume, and the queues of other consumers whose dead
	// letters have their own policy; each name once.
	Routes []Route

	Retry Retry
	Index Index

	// Fingerprint must be the same in every process of Watership.
	Fingerprint schemas.Fingerprints

	// Streams are the rules for the streams of messages; the first that gives an id counts.
	// They must be the same in every process of Watership. Default: messages have none.
	Streams       []streamid.Rule
	Subscriptions Subscriptions
	Alerts        Alerts
	Approvals     Approvals

	HTTP   HTTP
	Traces Traces
	Kibana Kibana
	Server Server
	Log    Log

	// StopTimeout is how long serve waits for handlers when it stops; the messages
	// of handlers that have not finished go back to their queues. Default: 30s.
	StopTimeout time.Duration

	settings []Setting
	keysSet  []string                     // sorted
	file     string                       // "": none
	digests  map[string][sha256.Size]byte // of the values as they are written, by key; never changed
}

// Server is the API through which commands work instead of with RabbitMQ and the store.
type Server struct {
	// URL is http or https, with the path at which a proxy serves it. Zero: none.
	URL URL

	TokenFile string // the token; "": none, which a server on this machine may admit
	CA        string // certificate authorities in PEM; "": the system's
	Cleartext bool   // the token may travel without TLS to another machine
	Reason    string // why bodies are read; "": a server that asks gets none
}

// Redact replaces values before events are stored. Zero: nothing is replaced.
type Redact struct {
	Rules []privacy.Rule

	// HashKeyFile holds the keys of hashes, see privacy.ParseHashKeys. Rules need it.
	HashKeyFile string

	// OriginalKeysFile holds the keys of originals, see privacy.ParseKeys. Empty: no original is
	// kept or opened.
	OriginalKeysFile string

	// SubjectKeysFile is where the SQLite store keeps the keys of subjects. Empty: beside its file.
	SubjectKeysFile string

	Unknown string // drop or keep, of bodies that rules cannot examine; default drop
}

// AMQP is the connection to RabbitMQ, or the embedded broker.
type AMQP struct {
	// URL holds login, host and vhost; amqp or amqps, with further nodes. Or it is Embedded: a broker
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
	// Empty: the URLs have the password.
	PasswordFile string

	// StateKeyFile holds the keys that sign the state of messages, one a line; see
	// schemas.ParseStateKeys. Empty: the state is not signed.
	StateKeyFile string

	// TLS is for amqps, and for ManagementURL with https.
	TLS TLS
}

// TLS names files in PEM. Zero: the certificate authorities of the system.
type TLS struct {
	CA   string // certificate authorities; empty: the system's
	Cert string // client certificate, and its Key; empty: none
	Key  string
}

// Store is the connection to the store of events.
type Store struct {
	// URL is Elasticsearch's or OpenSearch's, http or https; or sqlite:PATH, see URL.File. Default:
	// http://localhost:9200.
	URL URL

	// Product of the server: elasticsearch or opensearch, or auto for what it says that it is.
	// Default: auto.
	Product string

	// Stream is the first part of the names of the data streams, NAME-traffic,
	// NAME-failures and NAME-traffic@PERIOD. Default: watership-messages.
	Stream string

	Retention Retention

	// Username with PasswordFile, or APIKeyFile, whose content is the encoded form
	// of a key; a login may be part of URL instead. Empty: none.
	Username     string
	PasswordFile string
	APIKeyFile   string

	TLS TLS // for https
}

// Retention is how long events are kept; 0 is for ever. A deleted event can be
// neither found nor replayed. FormatDuration writes it in Elasticsearch's units.
type Retention struct {
	Traffic  time.Duration // published and handled messages; default 30d
	Failures time.Duration // all other events, far fewer; default 90d

	// Rules give published messages other periods; the first that matches decides.
	Rules eventstore.KeepRules
}

// Topology is the declaration of Watership's exchanges and queues.
type Topology struct {
	// Prefix begins their names. A change leaves the exchanges and queues of the old
	// prefix, with their messages, on the server. Default: watership.
	Prefix string

	// QueueType is quorum, which survives the loss of a node and costs a
	// replicated log a queue, or classic. Default: quorum.
	QueueType string
}

// Tap lists the exchanges whose every message is copied to the store.
type Tap struct {
	Exchanges []TapExchange

	// WhenFull is the overflow policy while messages are published faster than they
	// are stored: keep lets the broker's disk fill, drop_oldest drops the oldest
	// copies beyond Limit and records the gap. Publishers are never blocked.
	// Default: keep.
	WhenFull string

	// QueueType is the type of the index queues: classic delivers in the order of
	// publishing, where quorum delivers by priority, and is on one node only.
	// Default: Topology.QueueType.
	QueueType string

	// Limit is the number of messages that drop_oldest keeps in each of two queues.
	// Default: 1000000.
	Limit int
}

// TapExchange is one exchange that is tapped. Each of its messages is routed
// once more, and stored.
type TapExchange struct {
	Name string
	Type string // topic, fanout, direct or headers, as on the server

	// Keys are the binding keys of a topic or direct exchange. Without keys, a topic
	// exchange is bound with "#", and a direct exchange with the keys of its other
	// bindings, which the management API lists.
	Keys []string
}

// Route is a queue, its bindings, its handler and its retry policy. Without a handler,
// another program consumes the queue, and Watership retries its dead letters.
type Route struct {
	Queue   string
	Bind    []Bind  // none: other programs bind the queue
	Handler Handler // zero: none

	// Schema is a file with the JSON Schema of bodies: a message that does not fit is poison
	// at once. "": none.
	Schema string

	// Concurrency is the number of messages that are handled at a time; 1 keeps their
	// order. Each takes memory and one call of the handler. Default: 16.
	Concurrency int

	// Retry names a policy in Retry.Policies. Default: Retry.Default.
	Retry string

	// Rules give classes to errors that name none, before Retry.Rules. Default: none.
	Rules []retry.Rule

	// Breaker pauses the route. Default of each field: Retry.Breaker.
	Breaker retry.Breaker

	// Fairness divides the handlers among the keys of messages. Default: none.
	Fairness Fairness

	// Ordering makes messages wait for earlier ones of their key. Default: none.
	Ordering Ordering

	// Arguments of the queue, if it does not exist. Default: topology.queue_type.
	Arguments map[string]any

	// Timeout bounds one attempt, which fails at its end. 0, the default: only the
	// handler's own timeout.
	Timeout time.Duration

	// MaxDeliveries is the number of deliveries without an outcome, as the process ended,
	// after which a message is poison; -1: no limit. Default: 5.
	MaxDeliveries int

	// Headers of messages that decide about their retries, without a handler. Default: none.
	Headers retry.Headers

	// Park publishes a copy of each poison message to the queue NAME.poison. Default:
	// false.
	Park bool
}

// Ordering makes messages wait that fail since an earlier one of their key is not handled.
type Ordering struct {
	Class         string        // of errors; "": no ordering
	Key, Sequence string        // templates, such as {headers.account}; Sequence may be ""
	Within        time.Duration // bound of the wait, from the first failure
}

// Fairness divides the handlers of a route among the keys of messages.
type Fairness struct {
	Key         string  // a template, such as {headers.merchant}; "": no fairness
	Concurrency int     // messages of one key that are handled at a time; 0: an eighth of the route's
	Ordered     bool    // one at a time, in their order
	Rate        float64 // messages of one key a second, in each process; 0: no limit
}

// HandledQueues returns the queues of routes with a handler.
func (c Config) HandledQueues() []string { return c.queues(true) }

// ForeignQueues returns the queues of routes that other programs consume.
func (c Config) ForeignQueues() []string { return c.queues(false) }

func (c Config) queues(handled bool) (queues []string) {
	for _, route := range c.Routes {
		if route.HasHandler() == handled {
			queues = append(queues, route.Queue)
		}
	}
	return queues
}

// HasHandler reports whether serve handles the messages of the queue.
func (r Route) HasHandler() bool { return !r.Handler.HTTP.URL.IsZero() }

// Bind is a binding from an exchange, which must exist, to a route's queue.
type Bind struct {
	Exchange string
	Key      string // may be empty
}

// Subscriptions are the settings of the role that delivers events to queues and URLs.
type Subscriptions struct {
	// PrivateNetworks are networks that URLs of subscriptions may lead to, in addition to
	// the internet. Default: none.
	PrivateNetworks []netip.Prefix
}

// Handler processes the messages of a route.
type Handler struct {
	HTTP HTTPHandler
}

// HTTPHandler sends each message to a service.
type HTTPHandler struct {
	// URL may have fields of the message: see webhook.Config. Required.
	URL URL

	// Method is POST, PUT, PATCH, DELETE, or has fields. Default: POST.
	Method string

	// SetHeaders are headers of the request by name; their values may have fields. Default:
	// none.
	SetHeaders map[string]string

	// Hosts are those to which requests may be sent. Required if the host of URL has
	// fields, else none.
	Hosts []string

	// PrivateNetworks are networks that such hosts may be in, in addition to the internet. Default:
	// none.
	PrivateNetworks []netip.Prefix

	Timeout time.Duration // of one call; default 30s

	// Answers give responses a meaning or a class; the first that matches decides, and
	// these before Statuses.
	Answers []HTTPAnswer

	// Statuses give a status (404), or else a class of statuses (4xx), a meaning or a
	// class. None: the meanings by default.
	Statuses map[string]HTTPOutcome

	// Headers of a message that become headers of the request under their own names.
	// Any other is sent as Watership-Header-NAME. Default: traceparent, tracestate.
	Headers []string

	// KeepAnswers keeps the answers to successful requests in the record.
	KeepAnswers bool

	// MaxRetryAfter is the longest Retry-After that is obeyed. Default: 1h.
	MaxRetryAfter time.Duration

	// SecretFile holds the secrets that sign requests, one per line. "": not signed.
	SecretFile string
}

// HTTPAnswer is a rule about responses with a status, a header or a field of a JSON body.
type HTTPAnswer struct {
	Status, Header, Field string // at least one; Field is a JSON pointer
	Value                 string // of Header or Field; "": any

	HTTPOutcome
}

// HTTPOutcome is the result of a response; at least one is set.
type HTTPOutcome struct {
	Means string // handled, retry, poison or unavailable
	Class string // of the failure
}

// Retry holds the retry policies.
type Retry struct {
	// Default names the policy of routes that name none, and of dead letters of
	// other consumers. Default: default.
	Default string

	// Policies by name. The policy named default is retry.Default unless the file has
	// one. Each delay has its own queue.
	Policies map[string]retry.Policy

	// Rules give classes to errors that name none, in this order; the rules of a route come
	// first. Default: none.
	Rules []retry.Rule

	// Deaths are RabbitMQ's reasons for which a dead letter is tried again:
	// rejected, expired, maxlen, delivery_limit. A dead letter of any other reason is
	// poison at once. Default: rejected. None, as [] in the file: all are poison.
	Deaths []string

	// Breaker has the defaults of the breakers of routes. Default:
	// retry.Breaker.WithDefaults. 0 messages or waits in the file are -1 here, which
	// means none.
	Breaker retry.Breaker

	Return Return
}

// Return applies to messages that are due for a queue that is deleted or full, or
// that confirms nothing.
type Return struct {
	Grace   time.Duration // how long a queue may be missing before they are poison; default 5m
	Pause   time.Duration // between two attempts to publish, in whole milliseconds; default 10s
	Timeout time.Duration // for a queue's confirm of a message; default 30s
}

// Index configures the indexer, which writes events to the store.
type Index struct {
	Batch Batch

	// Memory bounds the events in flight in the indexer, in bytes, however large
	// messages are; a single message may be larger. Default: 64MiB.
	Memory int

	// Partitions is the number of index queues among which a consistent-hash exchange divides
	// the copies of messages, by PartitionKey: routing_key, message_id or headers.NAME.
	// Default: 1, and routing_key.
	Partitions   int
	PartitionKey string

	// Labels are headers that become keyword fields labels.NAME. NumericLabels become
	// numeric fields numeric_labels.NAME, for queries with ranges. Each is one more
	// field in every index. Default: none.
	Labels        []string
	NumericLabels []string

	// TimeHeaders are headers that have the time of the publish, by precedence, for
	// messages whose timestamp property has none. Default: none.
	TimeHeaders []string

	Body Body
}

// Batch bounds one request to the store; whichever bound is reached first sends it.
type Batch struct {
	Events int           // default 1000
	Bytes  int           // of the documents; default 5MiB
	Wait   time.Duration // since the first event, until which it cannot be found; default 500ms
}

// Body selects the parts of message bodies that can be searched. Whole bodies are
// stored and replayed either way. Text and JSON cost Elasticsearch a quarter more CPU.
type Body struct {
	Text bool // words; default true
	JSON bool // JSON fields; default true

	MaxValues int // JSON with more values cannot be searched by field; default 5000
}

// Kibana is where browsers find Kibana, to which the console links.
type Kibana struct {
	URL URL // empty, the default: no links
}

// HTTP is the server of the console, the API, health checks and metrics.
type HTTP struct {
	Listen string // host:port; empty, the default, is off

	// URL is the address at which browsers find the server. Auth.OIDC needs it, and links
	// in alerts and in Kibana lead there. Default: none.
	URL URL

	TLS  ServerTLS
	Auth Auth

	// TrustedProxies are networks of proxies that name the client in X-Forwarded-For.
	// Default: none.
	TrustedProxies []netip.Prefix
}

// ServerTLS names files in PEM, which are read again when they change. Without them there is no TLS.
type ServerTLS struct {
	Cert string // with intermediate certificates
	Key  string

	// HSTS makes browsers use nothing but https for the host, on all its ports,
	// for a year. Default true.
	HSTS bool
}

// Auth is who may use the HTTP server. Zero: programs of the same machine.
type Auth struct {
	// TokensFile holds the tokens of `watership token`. Empty: no tokens.
	TokensFile string

	// SessionKeyFile holds the keys that encrypt the cookies of browsers, one a line.
	// Empty: a random key for each process.
	SessionKeyFile string

	OIDC OIDC
}

// OIDC is the sign-in with OpenID Connect. Without an Issuer there is no sign-in.
type OIDC struct {
	Issuer           URL
	ClientID         string
	ClientSecretFile string // empty: a public client
	CA               string // certificate authorities of the issuer, in PEM; empty: the system's
	Scopes           []string
	NameClaim        string // default: email
	RolesClaim       string // default: groups
	Roles            []RoleGrant
	Bearer           bool // programs may send ID tokens; default: false
}

// RoleGrant gives a role to everybody with a value in the claim.
type RoleGrant struct {
	Claim             string
	Role              string // viewer, operator or admin
	Bodies            bool   // default: false
	BodyReasons       bool   // they read bodies for a reason alone; default: false
	Originals         bool   // of redacted messages; default: false
	Queues, Exchanges []string
}

// Log configures the log on standard error.
type Log struct {
	Level  slog.Level // debug, info, warn or error; default info
	Format string     // text or json; default text
}

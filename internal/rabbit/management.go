package rabbit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// ErrNotFound means that the broker has no such exchange or queue.
var ErrNotFound = errors.New("not found")

// ErrNoAnswer means that nothing answers at the URL of the management API.
var ErrNoAnswer = errors.New("no answer")

// Management is a client of RabbitMQ's management API
// (https://www.rabbitmq.com/docs/http-api-reference), for data that AMQP does not
// provide: bindings, arguments, policies.
type Management struct {
	nodes    []managementNode
	user     *url.Userinfo
	client   *http.Client
	maxBytes int64
	lookup   lookup
	first    atomic.Pointer[managementNode] // of a request: the one that answered last
}

const (
	managementTimeout  = 10 * time.Second
	managementMaxBytes = 64 << 20 // of one response; a vhost with 100,000 bindings needs about 30 MiB
)

// NewManagement returns a client for a URL such as http://user:password@host:15672, and for
// further nodes of the cluster as host:port, to which the rest of the URL applies. A request goes to
// a node that answers. Client may be nil; redirects are not followed, since they would forward the
// password. Errors never contain the password.
func NewManagement(rawURL string, client *http.Client, nodes ...string) (*Management, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("management URL is not valid: %w", withoutURL(err))
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || IsList(rawURL) {
		return nil, errors.New("management URL is not valid, expected http://user:password@host:15672")
	}
	if client == nil {
		client = ManagementClient(nil, nil)
	}
	direct := *client
	direct.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	m := &Management{user: u.User, client: &direct, maxBytes: managementMaxBytes, lookup: net.DefaultResolver.LookupHost}
	u.User = nil
	for _, host := range append([]string{u.Host}, nodes...) {
		if err := CheckNode(host); err != nil {
			return nil, err
		}
		base, err := NodeURL(u.String(), host)
		if err != nil {
			return nil, fmt.Errorf("management URL is not valid: %w", err)
		}
		m.nodes = append(m.nodes, managementNode{base: strings.TrimRight(base, "/")})
	}
	m.first.Store(&m.nodes[rand.IntN(len(m.nodes))]) // requests of many processes spread over the nodes
	return m, nil
}

// ManagementURL returns the usual URL of the management API: on the host of an AMQP URL,
// with the same login. It is empty if the AMQP URL has no host.
func ManagementURL(amqpURL string) string {
	from, err := url.Parse(amqpURL)
	if err != nil || from.Hostname() == "" {
		return ""
	}
	scheme, port := "http", "15672"
	if from.Scheme == "amqps" {
		scheme, port = "https", "15671"
	}
	to := url.URL{Scheme: scheme, User: from.User, Host: net.JoinHostPort(from.Hostname(), port)}
	return to.String()
}

// ManagementNodes returns the usual host:port of the management API on further nodes of a broker.
func ManagementNodes(amqpURL string, nodes []string) []string {
	first, err := url.Parse(ManagementURL(amqpURL))
	if err != nil {
		return nil
	}
	var all []string
	for _, node := range nodes {
		all = append(all, net.JoinHostPort((&url.URL{Host: node}).Hostname(), first.Port()))
	}
	return all
}

// ManagementClient returns an HTTP client that trusts the same certificates as an AMQP
// connection. Nil: system roots.
func ManagementClient(trust *tls.Config, dial func(network, address string) (net.Conn, error)) *http.Client {
	transport := systemTransport{http.DefaultTransport.(*http.Transport).Clone()}
	if trust != nil {
		transport.TLSClientConfig = trust.Clone()
	}
	if dial != nil {
		transport.DialContext = func(_ context.Context, network, address string) (net.Conn, error) { return dial(network, address) }
		return &http.Client{Timeout: managementTimeout, Transport: transport.Transport}
	}
	transport.DialTLSContext = dialTLS(trust)
	return &http.Client{Timeout: managementTimeout, Transport: transport}
}

// Overview holds a broker's name and version.
type Overview struct {
	ClusterName string `json:"cluster_name"`
	Node        string `json:"node"`
	Version     string `json:"rabbitmq_version"`

	ExchangeTypes []ExchangeType `json:"exchange_types"`
}

// ExchangeType is a type of exchanges that a broker has, by itself or by a plugin.
type ExchangeType struct {
	Name string `json:"name"`
}

// Overview returns the cluster name, node and version of the broker.
func (m *Management) Overview(ctx context.Context) (Overview, error) {
	return get[Overview](ctx, m, "overview")
}

// Login is the authenticated user.
type Login struct {
	Name string `json:"name"`
	Tags tags   `json:"tags"`
}

// tags are the tags of a user: a JSON array since RabbitMQ 3.9, comma-separated
// text before.
type tags []string

func (t *tags) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err == nil {
		*t = strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// WhoAmI returns the user's name and tags, and so checks the password.
func (m *Management) WhoAmI(ctx context.Context) (Login, error) {
	return get[Login](ctx, m, "whoami")
}

// Binding routes messages from an exchange to a queue or another exchange.
type Binding struct {
	Source          string         `json:"source"`
	Destination     string         `json:"destination"`
	DestinationType string         `json:"destination_type"` // "queue" or "exchange"
	RoutingKey      string         `json:"routing_key"`
	Arguments       map[string]any `json:"arguments"` // decoded from JSON: numbers are float64
}

// OtherClusterError is returned where the management API is of another cluster than the connection.
type OtherClusterError struct{ Connected, Managed string } // names of the clusters

// Error implements error.
func (e *OtherClusterError) Error() string {
	return fmt.Sprintf("the management API belongs to cluster %s, and amqp.url leads to cluster %s", e.Managed, e.Connected)
}

// CheckCluster returns an OtherClusterError if the API and the connection belong to clusters with
// different names. It waits for a live connection until ctx ends.
func (m *Management) CheckCluster(ctx context.Context, conn *Connection) error {
	overview, err := m.Overview(ctx)
	if err != nil {
		return err
	}
	return overview.CheckCluster(ctx, conn)
}

// CheckCluster is Management.CheckCluster with an overview that was read before.
func (o Overview) CheckCluster(ctx context.Context, conn *Connection) error {
	connected, err := conn.ClusterName(ctx)
	if err != nil {
		return err
	}
	if connected != "" && o.ClusterName != "" && connected != o.ClusterName {
		return &OtherClusterError{connected, o.ClusterName}
	}
	return nil
}

// Bindings lists the bindings whose source is the exchange. ErrNotFound if there is
// no such exchange.
func (m *Management) Bindings(ctx context.Context, vhost, exchange string) ([]Binding, error) {
	return get[[]Binding](ctx, m, "exchanges", vhost, exchange, "bindings", "source")
}

// BindingsTo lists the bindings whose destination is the exchange. ErrNotFound if there is
// no such exchange.
func (m *Management) BindingsTo(ctx context.Context, vhost, exchange string) ([]Binding, error) {
	return get[[]Binding](ctx, m, "exchanges", vhost, exchange, "bindings", "destination")
}

// Exchange describes an exchange.
type Exchange struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Internal   bool           `json:"internal"`
	Arguments  map[string]any `json:"arguments"`
	Policy     string         `json:"policy"`
}

// Exchange returns one exchange. ErrNotFound if none exists.
func (m *Management) Exchange(ctx context.Context, vhost, name string) (Exchange, error) {
	return get[Exchange](ctx, m, "exchanges", vhost, name)
}

// Exchanges lists the exchanges of a vhost; the default exchange has the name "".
func (m *Management) Exchanges(ctx context.Context, vhost string) ([]Exchange, error) {
	return get[[]Exchange](ctx, m, "exchanges", vhost)
}

// Queue describes a queue.
type Queue struct {
	Name           string         `json:"name"`
	Type           string         `json:"type"`  // quorum, classic, stream
	State          string         `json:"state"` // running; down, crashed, stopped or minority where it serves nothing; "": not known
	Durable        bool           `json:"durable"`
	AutoDelete     bool           `json:"auto_delete"`
	Exclusive      bool           `json:"exclusive"`
	Arguments      map[string]any `json:"arguments"`
	Policy         string         `json:"policy"`          // "" for none
	OperatorPolicy string         `json:"operator_policy"` // "" for none

	// Effective is the merged definition of policy and operator policy, with keys such
	// as delivery-limit and max-length, without "x-". Arguments override the policy; of
	// numeric limits the lower one applies. Nil: RabbitMQ does not tell it yet, as for up to
	// ten seconds after the queue was declared.
	Effective policyDefinition `json:"effective_policy_definition"`

	Messages  int64 `json:"messages"`
	Ready     int64 `json:"messages_ready"`
	Unacked   int64 `json:"messages_unacknowledged"`
	Consumers int   `json:"consumers"`

	// Stats count since the queue was declared or the broker was started.
	Stats struct {
		Published    int64 `json:"publish"`
		Acknowledged int64 `json:"ack"`
	} `json:"message_stats"`
}

// Available reports whether the queue takes and hands out messages.
func (q Queue) Available() bool {
	switch q.State {
	case "down", "crashed", "stopped", "minority":
		return false
	}
	return true
}

// Overflow returns the behaviour of the full queue: drop-head, which is the default, reject-publish or
// reject-publish-dlx. A policy precedes the argument of a quorum queue, for which reject-publish-dlx is drop-head;
// the argument of other queues precedes a policy.
func (q Queue) Overflow() string {
	declared, _ := q.Arguments["x-overflow"].(string)
	byPolicy, _ := q.Effective["overflow"].(string)
	if q.Type != "quorum" {
		return cmp.Or(declared, byPolicy, "drop-head")
	}
	if overflow := cmp.Or(byPolicy, declared); overflow == "reject-publish" {
		return overflow
	}
	return "drop-head"
}

// DeadLetterExchange returns the queue's dead-letter exchange, set by argument or
// policy, and whether it has one; "" is the default exchange.
func (q Queue) DeadLetterExchange() (name string, has bool) {
	if name, has = q.DeadLetterExchangeOfArgument(); !has {
		name, has = q.Effective["dead-letter-exchange"].(string)
	}
	return name, has
}

// DeadLetterExchangeOfArgument returns the dead-letter exchange that the arguments of the queue set, which
// precedes the one of a policy.
func (q Queue) DeadLetterExchangeOfArgument() (name string, has bool) {
	name, has = q.Arguments["x-dead-letter-exchange"].(string)
	return name, has
}

// policyDefinition is a JSON object, but some versions encode an empty one as [].
type policyDefinition map[string]any

func (d *policyDefinition) UnmarshalJSON(data []byte) error {
	if string(data) == "[]" || string(data) == `""` {
		*d = policyDefinition{}
		return nil
	}
	return json.Unmarshal(data, (*map[string]any)(d))
}

// Queue returns one queue. ErrNotFound if none exists. Counts lag by up to 5 s.
func (m *Management) Queue(ctx context.Context, vhost, name string) (Queue, error) {
	return get[Queue](ctx, m, "queues", vhost, name)
}

// Queues lists the queues of a vhost.
func (m *Management) Queues(ctx context.Context, vhost string) ([]Queue, error) {
	return get[[]Queue](ctx, m, "queues", vhost)
}

// QueueConsumer is a consumer of a queue.
type QueueConsumer struct {
	Tag   string `json:"consumer_tag"`
	Queue struct {
		Name string `json:"name"`
	} `json:"queue"`
}

// Consumers lists the consumers of a vhost. A new one may be missing for up to 5 s.
func (m *Management) Consumers(ctx context.Context, vhost string) ([]QueueConsumer, error) {
	return get[[]QueueConsumer](ctx, m, "consumers", vhost)
}

func get[T any](ctx context.Context, m *Management, path ...string) (answer T, err error) {
	body, err := m.fetch(ctx, http.MethodGet, nil, path)
	if err == nil {
		err = json.Unmarshal(body, &answer)
	}
	return answer, m.inContext(err, path)
}

// send sends a request that changes something.
func (m *Management) send(ctx context.Context, method string, body []byte, path ...string) error {
	_, err := m.fetch(ctx, method, body, path)
	return m.inContext(err, path)
}

func (m *Management) inContext(err error, path []string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("management API at %s: %s: %w", m.addresses(), strings.Join(path, " "), answerError{err})
}

// answerError truncates the text of an error, which may quote any part of a
// response.
type answerError struct{ cause error }

func (e answerError) Error() string { return fmt.Sprintf("%.500s", e.cause.Error()) }
func (e answerError) Unwrap() error { return e.cause }

func (m *Management) fetch(ctx context.Context, method string, sent []byte, path []string) ([]byte, error) {
	call := managementCall{method: method, sent: sent}
	for _, name := range path {
		if name == "." || name == ".." { // it takes them for steps of the path, escaped or not
			return nil, fmt.Errorf("the management API cannot name %q", name)
		}
		call.path += "/" + url.PathEscape(name)
	}
	return m.fetchFromAny(ctx, call)
}

// fetchFrom returns the answer of one node.
func (m *Management) fetchFrom(ctx context.Context, node managementNode, call managementCall) (answer managementAnswer, err error) {
	request, err := http.NewRequestWithContext(ctx, call.method, node.base+"/api"+call.path, bytes.NewReader(call.sent))
	if err != nil {
		return answer, withoutURL(err)
	}
	if node.address != "" {
		request = request.WithContext(context.WithValue(ctx, certifiedName{}, request.URL.Hostname()))
		request.Host, request.URL.Host = request.URL.Host, node.address
	}
	if call.sent != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if m.user != nil {
		password, _ := m.user.Password()
		request.SetBasicAuth(m.user.Username(), password)
	}
	response, err := m.client.Do(request)
	if err != nil {
		return answer, fmt.Errorf("%w: %w", ErrNoAnswer, withoutURL(err))
	}
	defer response.Body.Close()
	answer.body, err = io.ReadAll(io.LimitReader(response.Body, m.maxBytes+1))
	if err != nil {
		return answer, err
	}
	answer.err = m.refusal(response, answer.body)
	if response.StatusCode/100 == 5 { // as of a node that starts, or that has lost the others
		return answer, answer.err
	}
	return answer, nil
}

// refusal returns the error of a response; nil if it has the requested data.
func (m *Management) refusal(response *http.Response, body []byte) error {
	switch {
	case int64(len(body)) > m.maxBytes:
		return fmt.Errorf("answer is larger than %d bytes", m.maxBytes)
	case response.StatusCode == http.StatusNotFound:
		return ErrNotFound
	case response.StatusCode == http.StatusUnauthorized:
		return errors.New("login refused (401)")
	case response.StatusCode/100 == 3:
		return fmt.Errorf("%s to %.200q, which is not followed; give the address of the management API itself",
			response.Status, response.Header.Get("Location"))
	case response.StatusCode/100 != 2:
		return fmt.Errorf("%s: %.200s", response.Status, body)
	}
	return nil
}

package elastic

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/eventstore/elastic/internal/bulkbody"
	"github.com/watershipmq/watership/schemas"
)

// A search in a new index answers 503 until its shards are allocated, which takes a
// busy server a second or two.
const (
	readRetries      = 6
	firstReadBackoff = 25 * time.Millisecond // doubles: three seconds in all

	noStatus = 0 // that a response could have: none is a reason to repeat the request
)

// client sends requests about the documents of one Watership, and returns errors that name
// the operation and the server.
type client struct {
	stream    string // the prefix of the names of its indices
	timeout   time.Duration
	logger    *slog.Logger
	addresses string // the nodes, for errors

	// withoutRetries sends a request a single time: the indexer itself decides on retries. Only
	// a node that refuses the connection, and so got nothing, is replaced by another.
	// withRetries sends it again, to another node if there is one, after a 502, 503 or
	// 504 or without a response.
	withoutRetries, withRetries esapi.Transport
	httpTransport               *http.Transport

	product  atomic.Pointer[Product] // nil until the server has told
	isStated bool                    // by the configuration, so that no response has to tell it
}

// connect makes the two clients. It uses elastictransport and esapi, and not the
// go-elasticsearch client itself, which would have every build compile the typed API
// with its thousands of types.
func (c *client) connect(a access) error {
	once := []elastictransport.Option{elastictransport.WithDisableRetry()}
	if others := len(a.addresses) - 1; others > 0 {
		once = []elastictransport.Option{elastictransport.WithRetry(others, noStatus), elastictransport.WithRetryOnError(notSent)}
	}
	nodes, err := c.nodes(a)
	if err != nil {
		return err
	}
	withoutRetries, err := c.newClient(a, nodes, once...)
	if err != nil {
		return err
	}
	withRetries, err := c.newClient(a, nodes, elastictransport.WithMaxRetries(readRetries),
		elastictransport.WithRetryBackoff(func(attempt int) time.Duration { return firstReadBackoff << attempt }))
	if err != nil {
		return err
	}
	several := len(a.addresses) > 1
	c.withoutRetries, c.withRetries = productCheck{withoutRetries, several, c}, productCheck{withRetries, several, c}
	return nil
}

// nodes makes the pool of the nodes. Processes begin with different ones.
func (c *client) nodes(a access) (nodeTransport, error) {
	paths := map[string]string{}
	var nodes []*url.URL
	for _, address := range a.addresses {
		node, err := url.Parse(address)
		if err != nil { // access has already parsed it
			return nodeTransport{}, fmt.Errorf("reading the address of Elasticsearch: %w", err)
		}
		nodes = append(nodes, node)
		paths[host(node)] = node.Path
	}
	rand.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	return nodeTransport{c.httpTransport, newPool(nodes), paths}, nil
}

func (c *client) newClient(a access, nodes nodeTransport, retryOptions ...elastictransport.Option) (*elastictransport.Client, error) {
	options := append(retryOptions, elastictransport.WithURLs(nodes.pool.URLs()...))
	if len(a.addresses) > 1 {
		options = append(options, elastictransport.WithTransport(nodes),
			elastictransport.WithConnectionPoolFunc(func([]*elastictransport.Connection, elastictransport.Selector) elastictransport.ConnectionPool {
				return nodes.pool
			}))
	} else {
		options = append(options, elastictransport.WithTransport(nodes.Transport))
	}
	switch {
	case a.apiKey != "":
		options = append(options, elastictransport.WithAPIKey(a.apiKey))
	case a.username != "":
		options = append(options, elastictransport.WithBasicAuth(a.username, a.password))
	}
	client, err := elastictransport.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("creating a client for Elasticsearch at %s: %w", c.addresses, err)
	}
	return client, nil
}

// Close closes idle connections. The store can still be used.
func (c *client) Close() error {
	c.httpTransport.CloseIdleConnections()
	return nil
}

// dataStream is the name of a data stream.
func (c *client) dataStream(stream schemas.Stream) string { return c.stream + "-" + string(stream) }

// dataStreams are the names of all streams, and a pattern of those with a period, which may be of
// former rules. STREAM-* would also match the streams of another Watership with a longer prefix.
func (c *client) dataStreams() []string {
	return []string{c.dataStream(schemas.Traffic), c.dataStream(schemas.Failures), c.dataStream(schemas.Traffic) + "@*"}
}

// productCheck learns which product answers, and refuses responses of others. Elasticsearch sends the header
// since 7.14; OpenSearch sends none.
type productCheck struct {
	*elastictransport.Client
	several bool // nodes, by a nodeTransport
	of      *client
}

// ErrNotElasticsearch means that another server answers at the address.
var ErrNotElasticsearch = errors.New("the server is neither Elasticsearch, since its response has no header X-Elastic-Product, nor OpenSearch")

// Perform implements esapi.Transport. It sets the length of a bulk request, which esapi
// does not know.
func (c productCheck) Perform(request *http.Request) (*http.Response, error) {
	if bulk, ok := request.Body.(*bulkbody.Body); ok {
		request.ContentLength = bulk.Size()
		if c.several {
			request.GetBody = unread(bulk)
		}
	}
	response, err := c.Client.Perform(request)
	if err != nil || c.of.isStated {
		return response, err
	}
	known := c.of.product.Load()
	switch {
	case response.Header.Get("X-Elastic-Product") == "Elasticsearch":
		if known == nil {
			c.of.product.Store(new(Elasticsearch))
		}
		return response, nil
	case known != nil && *known == OpenSearch, !isOfServer(response.StatusCode):
		return response, nil
	case known == nil:
		if err = c.askForOpenSearch(request.Context()); err == nil {
			c.of.product.Store(new(OpenSearch))
			return response, nil
		}
	default:
		err = ErrNotElasticsearch
	}
	response.Body.Close()
	return nil, err
}

// isOfServer reports whether a status is the server's and not of a proxy in front of it.
func isOfServer(status int) bool {
	return status/100 == 2 || status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}

// askForOpenSearch asks the server for its name, which OpenSearch gives to every login with cluster:monitor/main. It
// returns ErrNotElasticsearch for another name.
func (c productCheck) askForOpenSearch(ctx context.Context) error {
	response, err := esapi.InfoRequest{}.Do(ctx, c.Client)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if !isOfServer(response.StatusCode) {
		return fmt.Errorf("the server does not say what it is, but answers with status %d: set its product", response.StatusCode)
	}
	var info struct {
		Version struct {
			Distribution Product `json:"distribution"`
		} `json:"version"`
	}
	err = json.NewDecoder(io.LimitReader(response.Body, 64<<10)).Decode(&info)
	if err != nil || info.Version.Distribution != OpenSearch {
		return ErrNotElasticsearch
	}
	return nil
}

// newHTTPTransport allows as many idle connections as bulk requests and readers use at
// once. The default of two a host would close and dial all the time.
func newHTTPTransport(config *tls.Config) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 32
	t.DialContext = (&net.Dialer{Timeout: dialTimeout}).DialContext
	t.ReadBufferSize = 64 << 10 // bytes: fewer system calls for pages of messages
	if config != nil {
		t.TLSClientConfig = config.Clone()
	}
	return t
}

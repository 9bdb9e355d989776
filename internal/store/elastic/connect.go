package elastic

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
)

// A search finds the shards of an index that was made just now missing (503)
// until they are allocated, which takes a busy server a second or two.
const (
	readRetries    = 6
	firstReadPause = 25 * time.Millisecond // doubles: three seconds in all
)

// connect makes the two ways of sending a request. It takes the client's
// transport and its requests, and not the client itself, which would have every
// build compile the typed API with its thousands of types.
func (s *Store) connect(a access) error {
	once, err := s.transport(a, elastictransport.WithDisableRetry())
	if err != nil {
		return err
	}
	patient, err := s.transport(a, elastictransport.WithMaxRetries(readRetries),
		elastictransport.WithRetryBackoff(func(attempt int) time.Duration { return firstReadPause << attempt }))
	if err != nil {
		return err
	}
	s.once, s.patient = genuine{once}, genuine{patient}
	return nil
}

func (s *Store) transport(a access, retries ...elastictransport.Option) (*elastictransport.Client, error) {
	options := append(retries, elastictransport.WithTransport(s.wire))
	var nodes []*url.URL
	for _, address := range a.addresses {
		node, err := url.Parse(address)
		if err != nil { // cannot be: access has parsed it
			return nil, fmt.Errorf("reading the address of Elasticsearch: %w", err)
		}
		nodes = append(nodes, node)
	}
	options = append(options, elastictransport.WithURLs(nodes...))
	switch {
	case a.apiKey != "":
		options = append(options, elastictransport.WithAPIKey(a.apiKey))
	case a.username != "":
		options = append(options, elastictransport.WithBasicAuth(a.username, a.password))
	}
	client, err := elastictransport.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("making a client for Elasticsearch at %s: %w", s.where, err)
	}
	return client, nil
}

// genuine refuses the answers of what is not Elasticsearch, which marks its own
// since 7.14.
type genuine struct{ *elastictransport.Client }

var errNotElasticsearch = errors.New("what answers there is not Elasticsearch: it does not say X-Elastic-Product")

// Perform implements esapi.Transport.
func (g genuine) Perform(request *http.Request) (*http.Response, error) {
	response, err := g.Client.Perform(request)
	if err != nil || response.StatusCode/100 != 2 || response.Header.Get("X-Elastic-Product") == "Elasticsearch" {
		return response, err
	}
	response.Body.Close()
	return nil, errNotElasticsearch
}

// wire keeps as many connections as bulks and readers use at once; the
// standard library's two a host would close and dial all the time.
func wire(config *tls.Config) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 32
	t.ReadBufferSize = 64 << 10 // bytes: pages of messages come in few system calls
	if config != nil {
		t.TLSClientConfig = config.Clone()
	}
	return t
}

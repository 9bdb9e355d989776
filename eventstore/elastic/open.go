// Package elastic stores Watership's events in Elasticsearch: it installs the
// index templates, creates documents, and reads events back:
//
//	store, err := elastic.Open(elastic.Config{URLs: []string{"http://localhost:9200"}})
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	n, err := store.Count(ctx, eventstore.Selection{})
//
// Do not use it for other documents: it reads and writes only the data streams of
// Watership.
//
// It writes to two data streams, traffic and failures, with the bulk API, and reads
// both through points in time. A request that fails as a whole returns a
// *eventstore.Error, which names the remedy.
package elastic

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/schemas"
)

// DefaultStream is the Stream of a Config without one.
const DefaultStream = "watership-messages"

// Config has the addresses of Elasticsearch, the credentials and the data streams.
type Config struct {
	// URLs of the nodes, such as https://es.example:9200; at least one. They can
	// contain a user and a password, the same in each.
	URLs []string

	// Username and Password, or APIKey (its encoded form), or neither.
	Username string
	Password string
	APIKey   string

	// TLS configures https; nil trusts the system's certificate authorities.
	TLS *tls.Config

	// Stream is the prefix of both data streams: STREAM-traffic and
	// STREAM-failures. Empty: DefaultStream.
	Stream string

	// Retention is the data_retention by stream, such as "30d"
	// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/api-conventions.html#time-units).
	// A stream without one keeps its documents for ever.
	Retention map[schemas.Stream]string

	// Labels are the full names of labels in documents, such as labels.tenant. A
	// query with a pattern of names, such as labels.*, searches these.
	Labels []string

	// Timeout limits a request with all its retries and its response. 0: a minute.
	Timeout time.Duration

	// Logger logs rollovers and limitations of the server; nil: no log.
	Logger *slog.Logger
}

// Store is the Elasticsearch store. Its methods are safe for concurrent use.
type Store struct {
	stream    string
	retention map[schemas.Stream]string
	timeout   time.Duration
	logger    *slog.Logger
	addresses string // the nodes, for errors

	// withoutRetries sends a request a single time: the indexer itself decides on retries.
	// withRetries sends it again, to another node if there is one, after a 502, 503 or
	// 504 or without a response.
	withoutRetries, withRetries esapi.Transport
	httpTransport               *http.Transport

	fields kql.Fields
}

// Open checks a configuration and makes a store. It does not connect. No error of the
// store contains a password or a key.
func Open(cfg Config) (*Store, error) {
	if cfg.Stream == "" {
		cfg.Stream = DefaultStream
	}
	access, err := cfg.access()
	if err != nil {
		return nil, err
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	fields, err := eventstore.Fields()
	if err != nil {
		return nil, err
	}
	fields.Labels = cfg.Labels
	s := &Store{
		stream:        cfg.Stream,
		retention:     cfg.Retention,
		timeout:       cmp.Or(cfg.Timeout, time.Minute),
		logger:        cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)),
		addresses:     strings.Join(access.addresses, ", "),
		httpTransport: newHTTPTransport(cfg.TLS),
		fields:        fields,
	}
	return s, s.connect(access)
}

// Close closes idle connections. The store can still be used.
func (s *Store) Close() error {
	s.httpTransport.CloseIdleConnections()
	return nil
}

// dataStream is the name of a data stream.
func (s *Store) dataStream(stream schemas.Stream) string { return s.stream + "-" + string(stream) }

// dataStreams lists both names, since STREAM-* would also match the streams of another
// Watership with a longer prefix.
func (s *Store) dataStreams() []string {
	return []string{s.dataStream(schemas.Traffic), s.dataStream(schemas.Failures)}
}

// Package elastic keeps Watership's events in Elasticsearch: it installs the
// index templates, creates documents, and reads events back.
//
// Two data streams, one of traffic and one of failures, are written with the
// bulk API and read together through points in time. What goes wrong with a
// request as a whole is a *schemas.StoreError, which says what to do about it.
package elastic

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/elastic/go-elasticsearch/v8/esapi"

	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/schemas/query"
)

// DefaultStream begins the names of the data streams where Config says nothing.
const DefaultStream = "watership-messages"

// Config says where Elasticsearch is and what is kept there.
type Config struct {
	// URLs of the nodes, such as https://es.example:9200; at least one. A user
	// and a password may be part of them, the same in each.
	URLs []string

	// Username and Password, or APIKey (its encoded form), or neither.
	Username string
	Password string
	APIKey   string

	// TLS for https; nil trusts what the system trusts.
	TLS *tls.Config

	// Stream begins the names of both data streams: STREAM-traffic and
	// STREAM-failures. Empty: DefaultStream.
	Stream string

	// Retention says how long documents are kept, such as "30d"
	// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/api-conventions.html#time-units).
	// A stream that is not in it keeps them for ever.
	Retention map[schemas.Stream]string

	// Labels are the full names of labels that documents have, such as
	// labels.tenant: what a query with a pattern of names, labels.*, asks.
	Labels []string

	// Timeout bounds every single request, its retries and its answer
	// included. 0: a minute.
	Timeout time.Duration

	// Logger hears of what is odd but harmless; nil: nobody does.
	Logger *slog.Logger
}

// Store is the Elasticsearch store. Its methods may be called concurrently.
type Store struct {
	stream    string
	retention map[schemas.Stream]string
	timeout   time.Duration
	logger    *slog.Logger
	where     string // the nodes, for errors

	// once sends a request a single time: the indexer itself decides what is
	// sent again, and when. patient tries again, on another node if there is
	// one, where an answer is 502, 503 or 504 or does not come.
	once, patient esapi.Transport
	wire          *http.Transport

	bodies sync.Pool // of *[]byte, for bulks
	fields query.Fields
}

// Open checks a configuration and makes a store of it. It does not connect.
// No error of the store prints a password or a key.
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
	fields, err := schemas.Fields()
	if err != nil {
		return nil, err
	}
	fields.Labels = cfg.Labels
	s := &Store{
		stream:    cfg.Stream,
		retention: cfg.Retention,
		timeout:   orDefault(cfg.Timeout, time.Minute),
		logger:    orDefault(cfg.Logger, slog.New(slog.DiscardHandler)),
		where:     strings.Join(access.addresses, ", "),
		wire:      wire(cfg.TLS),
		fields:    fields,
	}
	return s, s.connect(access)
}

// Close lets go of idle connections. The store can be used on.
func (s *Store) Close() error {
	s.wire.CloseIdleConnections()
	return nil
}

// name is the data stream of that kind.
func (s *Store) name(stream schemas.Stream) string { return s.stream + "-" + string(stream) }

// both names the data streams one by one, since STREAM-* would also find those
// of another Watership whose prefix begins with ours.
func (s *Store) both() []string {
	return []string{s.name(schemas.Traffic), s.name(schemas.Failures)}
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// Package elastic stores Watership's events in Elasticsearch or OpenSearch: it installs the
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
// It writes to the data streams traffic and failures, and to one for each period of rules,
// with the bulk API, and reads all of them through points in time. A request that fails as a whole returns a
// *eventstore.Error, which names the remedy.
package elastic

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/schemas"
)

// DefaultStream is the Stream of a Config without one.
const DefaultStream = "watership-messages"

// Config has the addresses of Elasticsearch, the credentials and the data streams.
type Config struct {
	// URLs of the nodes, such as https://es.example:9200; at least one. They can
	// contain a user and a password, the same in each.
	URLs []string

	// Product is the product of the server. Empty: the server is asked once. With a product,
	// responses may lack the header that names it, which some proxies remove.
	Product Product

	// Username and Password, or APIKey (its encoded form), or neither.
	Username string
	Password string
	APIKey   string

	// TLS configures https; nil trusts the system's certificate authorities.
	TLS *tls.Config

	// Stream is the prefix of the data streams: STREAM-traffic, STREAM-failures, and
	// STREAM-traffic@PERIOD for each period of Keep. Empty: DefaultStream.
	Stream string

	// Retention is the data_retention by stream, such as "30d"
	// (https://www.elastic.co/guide/en/elasticsearch/reference/8.19/api-conventions.html#time-units).
	// A stream without one keeps its documents for ever. The stream of a period needs
	// none.
	Retention map[schemas.Stream]string

	// Keep are the rules by which the documents' streams were chosen. Install creates the data streams
	// of their periods. Processes that only read need none.
	Keep eventstore.KeepRules

	// Labels are the full names of labels in documents, such as labels.tenant. A
	// query with a pattern of names, such as labels.*, searches these.
	Labels []string

	// Timeout limits a request with all its retries and its response. 0: a minute.
	Timeout time.Duration

	// Logger logs rollovers and limitations of the server; nil: slog.Default.
	Logger *slog.Logger
}

// Store is the Elasticsearch store. Its methods are safe for concurrent use.
type Store struct {
	*client
	reader
	writer
	records
	jobs
	subjects
	installer
	retention
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
	c := &client{
		stream:        cfg.Stream,
		timeout:       cmp.Or(cfg.Timeout, time.Minute),
		logger:        cmp.Or(cfg.Logger, slog.Default()),
		addresses:     strings.Join(access.addresses, ", "),
		httpTransport: newHTTPTransport(cfg.TLS),
	}
	if cfg.Product != "" {
		c.product.Store(&cfg.Product)
		c.isStated = true
	}
	kept := records{documents{c, cfg.Stream + ".records", recordsMapping}}
	return &Store{
		client:    c,
		reader:    reader{c, fields},
		writer:    writer{c},
		records:   kept,
		jobs:      jobs{documents{c, cfg.Stream + ".jobs", jobsMapping}},
		subjects:  subjects{documents{c, cfg.Stream + ".subjects", subjectsMapping}},
		installer: installer{c, kept, cfg.Retention, cfg.Keep},
		retention: retention{c, kept, cfg.Keep, cfg.Retention},
	}, c.connect(access)
}

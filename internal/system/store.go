package system

import (
	"context"
	"io"
	"iter"
	"maps"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/internal/render/quantity"
	"github.com/watershipmq/watership/privacy"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// EventStore is the store as all parts need it; package sqlite documents its methods,
// and package elastic where they differ.
type EventStore interface {
	indexer.Store
	replayer.Store
	replayer.Jobs

	DeleteRecord(ctx context.Context, kind, id, version string) (deleted bool, err error)
	Records(ctx context.Context, kind string) iter.Seq2[[]byte, error]

	privacy.SubjectKeys
	DestroySubjectKeys(ctx context.Context, subjects []string) (destroyed []string, err error)

	Replace(ctx context.Context, list []eventstore.Replacement) ([]eventstore.Result, error)
	Install(ctx context.Context) error
	Check(ctx context.Context) error
	Product() string
	Clock(ctx context.Context) (time.Time, error)
	Summaries(ctx context.Context, sel eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error]
	TopValues(ctx context.Context, sel eventstore.Selection, field string, n int) (eventstore.Aggregation, error)
	Present(ctx context.Context, sel eventstore.Selection, of eventstore.FieldIn) (map[string]bool, error)
	Histogram(ctx context.Context, sel eventstore.Selection, field string, n int, zone *time.Location) (eventstore.Aggregation, error)
	HistogramByAction(ctx context.Context, sel eventstore.Selection, over eventstore.Steps, actions []schemas.Action) ([][]int64, error)
	Percentiles(ctx context.Context, sel eventstore.Selection, by string, n int, fields ...string) (eventstore.PercentilesBy, error)
	FirstTime(ctx context.Context, sel eventstore.Selection) (time.Time, error)
	Retain(ctx context.Context) (removed int64, err error)
	Removed(ctx context.Context, source string) (eventstore.Removed, error)
}

// ClosableStore is a store that a System closes.
type ClosableStore interface {
	EventStore
	io.Closer
}

// Store returns the store of store.url, which is closed with the System.
func (s *System) Store(ctx context.Context) (EventStore, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events != nil {
		return s.events, nil
	}
	opened, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	s.events = opened
	s.closers = append(s.closers, opened.Close)
	return opened, nil
}

func (s *System) openStore(ctx context.Context) (ClosableStore, error) {
	cfg, labels := s.settings.Store, s.DocumentFormat().LabelFields()
	if path := cfg.URL.File(); path != "" {
		return sqlite.Open(ctx, sqlite.Config{Path: path, Subjects: s.settings.Redact.SubjectKeysFile, Retention: s.Retention(), Keep: cfg.Retention.Rules, Labels: labels, Logger: s.logger})
	}
	retention := map[schemas.Stream]string{}
	for stream, kept := range s.Retention() {
		retention[stream] = quantity.FormatDuration(kept)
	}
	product := elastic.Product(cfg.Product)
	if cfg.Product == "auto" {
		product = ""
	}
	return elastic.Open(elastic.Config{
		Product: product,
		URLs:    cfg.URL.RevealAll(), Stream: cfg.Stream, Retention: retention, Keep: cfg.Retention.Rules, Labels: labels, Logger: s.logger,
		TLS: s.secrets.StoreTLS, Username: cfg.Username, Password: s.secrets.StorePassword, APIKey: s.secrets.StoreAPIKey,
	})
}

// CheckStore returns the error of the store that an empty result may be due to.
func (s *System) CheckStore(ctx context.Context) error {
	events, err := s.Store(ctx)
	if err != nil {
		return err
	}
	return events.Check(ctx)
}

// Retention returns the retention of each stream, without streams that are kept for
// ever.
func (s *configuration) Retention() map[schemas.Stream]time.Duration {
	settings := s.settings.Store.Retention
	retention := map[schemas.Stream]time.Duration{schemas.Traffic: settings.Traffic, schemas.Failures: settings.Failures}
	for _, stream := range settings.Rules.Streams() {
		retention[stream], _ = stream.Period()
	}
	maps.DeleteFunc(retention, func(_ schemas.Stream, kept time.Duration) bool { return kept == 0 })
	return retention
}

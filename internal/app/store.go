package app

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/internal/quantity"
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

	Replace(ctx context.Context, list []eventstore.Replacement) ([]eventstore.Result, error)
	Install(ctx context.Context) error
	Check(ctx context.Context) error
	Clock(ctx context.Context) (time.Time, error)
	Summaries(ctx context.Context, sel eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error]
	TopValues(ctx context.Context, sel eventstore.Selection, field string, n int) (eventstore.Aggregation, error)
	Histogram(ctx context.Context, sel eventstore.Selection, field string, n int, zone *time.Location) (eventstore.Aggregation, error)
	HistogramByAction(ctx context.Context, sel eventstore.Selection, over eventstore.Steps, actions []schemas.Action) ([][]int64, error)
	FirstTime(ctx context.Context, sel eventstore.Selection) (time.Time, error)
	Retain(ctx context.Context) (removed int64, err error)
	Removed(ctx context.Context, source string) (eventstore.Removed, error)
}

// Store returns the store of store.url, which is closed with the App.
func (a *App) Store(ctx context.Context) (EventStore, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.events != nil {
		return a.events, nil
	}
	opened, err := a.openStore(ctx)
	if err != nil {
		return nil, err
	}
	a.events = opened
	a.closers = append(a.closers, opened.Close)
	return opened, nil
}

func (a *App) openStore(ctx context.Context) (interface {
	EventStore
	io.Closer
}, error,
) {
	cfg, labels := a.settings.Store, a.DocumentFormat().LabelFields()
	if path := cfg.URL.File(); path != "" {
		return sqlite.Open(ctx, sqlite.Config{Path: path, Retention: a.retention(), Labels: labels, Logger: a.logger})
	}
	retention := map[schemas.Stream]string{}
	for stream, kept := range a.retention() {
		retention[stream] = quantity.FormatDuration(kept)
	}
	return elastic.Open(elastic.Config{
		URLs: []string{cfg.URL.Reveal()}, Stream: cfg.Stream, Retention: retention, Labels: labels, Logger: a.logger,
		TLS: a.secrets.StoreTLS, Username: cfg.Username, Password: a.secrets.StorePassword, APIKey: a.secrets.StoreAPIKey,
	})
}

// CheckStore returns the error of the store that an empty result may be due to.
func (a *App) CheckStore(ctx context.Context) error {
	events, err := a.Store(ctx)
	if err != nil {
		return err
	}
	return events.Check(ctx)
}

// retention returns the retention of each stream, without streams that are kept for
// ever.
func (a *App) retention() map[schemas.Stream]time.Duration {
	retention := map[schemas.Stream]time.Duration{}
	for stream, kept := range map[schemas.Stream]time.Duration{
		schemas.Traffic: a.settings.Store.Retention.Traffic, schemas.Failures: a.settings.Store.Retention.Failures,
	} {
		if kept > 0 {
			retention[stream] = kept
		}
	}
	return retention
}

func (a *App) storeKind() string {
	if a.settings.Store.URL.File() != "" {
		return "SQLite"
	}
	return "Elasticsearch"
}

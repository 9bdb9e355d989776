package cli

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/indexer"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/schemas"
)

// eventStore is the store as the commands need it; package sqlite documents its
// methods, and package elastic where they differ.
type eventStore interface {
	indexer.Store
	replayer.Store
	replayer.Jobs

	Install(ctx context.Context) error
	Check(ctx context.Context) error
	Clock(ctx context.Context) (time.Time, error)
	Summaries(ctx context.Context, sel eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error]
	TopValues(ctx context.Context, sel eventstore.Selection, field string, n int) (eventstore.Aggregation, error)
	Histogram(ctx context.Context, sel eventstore.Selection, field string, n int, zone *time.Location) (eventstore.Aggregation, error)
	Close() error
}

// store opens the store that store.url names.
func (s system) store(ctx context.Context) (eventStore, error) {
	if path := s.cfg.Store.URL.File(); path != "" {
		return sqlite.Open(ctx, sqlite.Config{Path: path, Retention: s.retention(), Labels: s.format().LabelFields(), Logger: s.logger})
	}
	retention := map[schemas.Stream]string{}
	for stream, kept := range s.retention() {
		retention[stream] = config.FormatDuration(kept)
	}
	return elastic.Open(elastic.Config{
		URLs: []string{s.cfg.Store.URL.Reveal()}, Stream: s.cfg.Store.Stream,
		Retention: retention, Labels: s.format().LabelFields(), Logger: s.logger, TLS: s.secrets.storeTLS,
		Username: s.cfg.Store.Username, Password: s.secrets.storePassword, APIKey: s.secrets.storeAPIKey,
	})
}

// checkStore returns the error of the store that an empty result may be due to.
func (s system) checkStore(ctx context.Context) error {
	store, err := s.store(ctx)
	if err != nil {
		return err
	}
	return errors.Join(store.Check(ctx), store.Close())
}

// retention returns the retention of each stream, without streams that are kept for
// ever.
func (s system) retention() map[schemas.Stream]time.Duration {
	retention := map[schemas.Stream]time.Duration{}
	for stream, kept := range map[schemas.Stream]time.Duration{
		schemas.Traffic: s.cfg.Store.Retention.Traffic, schemas.Failures: s.cfg.Store.Retention.Failures,
	} {
		if kept > 0 {
			retention[stream] = kept
		}
	}
	return retention
}

func (s system) storeKind() string {
	if s.cfg.Store.URL.File() != "" {
		return "SQLite"
	}
	return "Elasticsearch"
}

const retainEvery = time.Minute

// retain removes events older than the retention until ctx ends, if the store does not
// do that by itself.
func (v *vitals) retain(ctx context.Context) error {
	store, asked := v.store.(interface {
		Retain(ctx context.Context) (removed int64, err error)
	})
	if !asked {
		return nil
	}
	ticker := time.NewTicker(retainEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		if _, err := store.Retain(ctx); err != nil && ctx.Err() == nil {
			v.logger.Warn("removing old events failed; trying again", "error", err)
		}
	}
}

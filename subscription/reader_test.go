package subscription_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

const source = "shop"

func newStore(t *testing.T) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "events.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	if err := store.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	return store
}

func storeEvents(t *testing.T, store interface {
	Create(context.Context, []schemas.Document) ([]eventstore.Result, error)
}, source string, sequences ...int64,
) {
	t.Helper()
	var documents []schemas.Document
	for _, n := range sequences {
		e := schemas.Event{Action: schemas.Published, Sequence: n, Source: source, VHost: "/"}
		e.Time = time.UnixMicro(n).UTC()
		e.Envelope.RoutingKey, e.Envelope.Body = fmt.Sprintf("key-%d", n%2), []byte("{}")
		e.Fingerprint = e.Envelope.Fingerprint()
		e.EventID = fmt.Sprintf("%s-%d", source, n)
		documents = append(documents, schemas.DocumentFormat{}.Document(e))
	}
	results, err := store.Create(t.Context(), documents)
	if err != nil || slices.ContainsFunc(results, func(r eventstore.Result) bool { return r.Status != eventstore.Created }) {
		t.Fatalf("%+v, %v", results, err)
	}
}

// setWatermarks replaces the watermarks of the source.
func setWatermarks(t *testing.T, store *sqlite.Store, queues map[string]eventstore.Watermark) {
	t.Helper()
	document, err := json.Marshal(eventstore.Watermarks{Source: source, Queues: queues})
	if err != nil {
		t.Fatal(err)
	}
	_, version, err := store.Record(t.Context(), eventstore.WatermarkRecord, source)
	if err == nil && version == "" {
		version, err = store.CreateRecord(t.Context(), eventstore.WatermarkRecord, source, document)
	} else if err == nil {
		version, err = store.SaveRecord(t.Context(), eventstore.WatermarkRecord, source, version, document)
	}
	if err != nil || version == "" {
		t.Fatalf("saving the watermarks: %q, %v", version, err)
	}
}

// reading is a Reader in a goroutine, which ends with the test.
type reading struct{ items chan subscription.Item }

func read(t *testing.T, r subscription.Reader, after eventstore.Cursor) reading {
	ctx, cancel := context.WithCancel(t.Context())
	done, items := make(chan struct{}), make(chan subscription.Item)
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		for item, err := range r.Items(ctx, after) {
			if err != nil {
				t.Error(err)
			}
			select {
			case items <- item:
			case <-ctx.Done():
				return
			}
		}
	}()
	return reading{items}
}

// want reads until the events up to a position have come.
func (r reading) want(t *testing.T, position int64, sequences ...int64) {
	t.Helper()
	var got []int64
	for {
		item := <-r.items
		if item.Err != nil {
			t.Fatal(item.Err)
		}
		if !item.CaughtUp {
			got = append(got, item.Event.Sequence)
		} else if item.Position.Sequence >= position {
			break
		}
	}
	if !slices.Equal(got, sequences) {
		t.Fatalf("read %v, want %v", got, sequences)
	}
}

func TestReaderWaitsForTheWatermark(t *testing.T) {
	store := newStore(t)
	storeEvents(t, store, source, 1, 2, 3)
	storeEvents(t, store, "another", 4)
	r := read(t, subscription.Reader{Store: store, Source: source, Interval: time.Millisecond}, eventstore.Cursor{})
	r.want(t, 4, 1, 2, 3)
	setWatermarks(t, store, map[string]eventstore.Watermark{"log": {Session: "a", Sequence: 4}, "index": {Session: "b", Sequence: 9}})
	storeEvents(t, store, source, 5, 7)
	setWatermarks(t, store, map[string]eventstore.Watermark{"log": {Session: "a", Sequence: 5}, "index": {Session: "b", Sequence: 9}, "late": {Sequence: 1}})
	r.want(t, 6, 5)
	storeEvents(t, store, source, 6) // visible after its successor
	setWatermarks(t, store, map[string]eventstore.Watermark{"log": {Session: "a", Sequence: 9}, "index": {Session: "b", Sequence: 9}})
	r.want(t, 10, 6, 7)
	setWatermarks(t, store, map[string]eventstore.Watermark{"log": {Sequence: 9}, "index": {Sequence: 9}})
	storeEvents(t, store, source, 12)
	r.want(t, 13, 12)
}

func TestReaderContinuesAfterAPosition(t *testing.T) {
	store := newStore(t)
	storeEvents(t, store, source, 1, 2, 3, 4, 5)
	query, err := kql.Parse("messaging.rabbitmq.destination.routing_key: key-1")
	if err != nil {
		t.Fatal(err)
	}
	fields, err := eventstore.Fields()
	if err != nil {
		t.Fatal(err)
	}
	if query, err = kql.Resolve(query, fields); err != nil {
		t.Fatal(err)
	}
	reader := subscription.Reader{Store: store, Source: source, Query: query, Interval: time.Millisecond}
	read(t, reader, eventstore.Cursor{}).want(t, 6, 1, 3, 5)
	read(t, reader, eventstore.Cursor{Sequence: 3, EventID: "shop-3"}).want(t, 6, 5)
	read(t, reader, eventstore.Cursor{Sequence: 3}).want(t, 6, 3, 5)
}

func TestReaderOfAnEmptyStore(t *testing.T) {
	store := newStore(t)
	r := read(t, subscription.Reader{Store: store, Source: source, Interval: time.Millisecond}, eventstore.Cursor{})
	r.want(t, 1)
	storeEvents(t, store, source, 1)
	r.want(t, 2, 1)
}

package subscription_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

var ledgerForever = eventstore.KeepRules{{Exchange: "ledger", Keep: 0}}

const hour = int64(time.Hour / time.Microsecond)

// hours returns the sequences from the first to the last hour.
func hours(first, last int64) []int64 {
	list := numbers(first, last)
	for i := range list {
		list[i] *= hour
	}
	return list
}

type stored interface{ subscription.Records }

// aging is a store that removes the events up to an hour, as its retention does.
type aging struct {
	stored
	add    func(ctx context.Context, documents []schemas.Document) ([]eventstore.Result, error)
	create func(t *testing.T, hours ...int64)
	remove func(t *testing.T, upTo int64)
}

// eachAging runs a test on both stores. Elasticsearch removes whole indices: one has the events up to
// hour 10.
func eachAging(t *testing.T, test func(t *testing.T, store aging)) {
	t.Run("SQLite", func(t *testing.T) { test(t, agingSQLite(t)) })
	t.Run("Elasticsearch", func(t *testing.T) { test(t, agingElastic(t, ledgerForever, schemas.Traffic)) })
}

func agingSQLite(t *testing.T) aging {
	t.Helper()
	path := t.TempDir() + "/events.db"
	open := func(retention map[schemas.Stream]time.Duration) *sqlite.Store {
		store, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Retention: retention, Keep: ledgerForever})
		if err == nil {
			t.Cleanup(func() { _ = store.Close() })
			err = store.Install(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
	store := open(nil)
	return aging{
		store, store.Create, func(t *testing.T, hours ...int64) { t.Helper(); storeEvents(t, store, source, hours...) },
		func(t *testing.T, upTo int64) {
			t.Helper()
			if _, err := open(map[schemas.Stream]time.Duration{schemas.Traffic: time.Since(time.UnixMicro(upTo + hour/2))}).Retain(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// agingElastic removes the first index of a stream.
func agingElastic(t *testing.T, rules eventstore.KeepRules, removed schemas.Stream) aging {
	t.Helper()
	server := os.Getenv("WATERSHIP_TEST_STORE_URL")
	if server == "" {
		if os.Getenv("WATERSHIP_TEST_REQUIRED") == "1" {
			t.Fatal("WATERSHIP_TEST_STORE_URL is not set")
		}
		t.Skip("WATERSHIP_TEST_STORE_URL is not set: no Elasticsearch to test against")
	}
	stream := "test-" + strings.ToLower(rand.Text())
	store, err := elastic.Open(elastic.Config{URLs: []string{server}, Stream: stream, Keep: rules})
	if err == nil {
		t.Cleanup(func() { _ = store.Close() })
		err = store.Install(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	do := func(t *testing.T, method, path string) (body []byte) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, server+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err = io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %s, %s, %v", method, path, response.Status, body, err)
		}
		return body
	}
	observe := func(t *testing.T) {
		t.Helper()
		if _, err := store.Retain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return aging{
		store, store.Create, func(t *testing.T, hours ...int64) {
			t.Helper()
			storeEvents(t, store, source, hours...)
			observe(t)
			if slices.Contains(hours, 10*hour) {
				do(t, http.MethodPost, "/"+stream+"-"+string(removed)+"/_rollover?master_timeout=2m")
				observe(t)
				observe(t)
			}
		},
		func(t *testing.T, upTo int64) {
			t.Helper()
			if upTo != 10*hour {
				t.Fatal("the first index has the events up to hour 10")
			}
			first := regexp.MustCompile(`\.ds-[^"]*-000001`).Find(do(t, http.MethodGet, "/_resolve/index/"+stream+"-"+string(removed)))
			do(t, http.MethodDelete, "/"+string(first))
		},
	}
}

// createOf stores published events of an exchange.
func (a aging) createOf(t *testing.T, exchange string, rules eventstore.KeepRules, sequences ...int64) {
	t.Helper()
	var documents []schemas.Document
	for _, n := range sequences {
		e := schemas.Event{Action: schemas.Published, Sequence: n, Source: source, VHost: "/"}
		e.Time = time.UnixMicro(n).UTC()
		e.Envelope.Exchange, e.EventID = exchange, fmt.Sprint(exchange, "-", n)
		e.Fingerprint = e.Envelope.Fingerprint()
		documents = append(documents, schemas.DocumentFormat{StreamOf: rules.StreamOf}.Document(e))
	}
	results, err := a.add(t.Context(), documents)
	if err != nil || slices.ContainsFunc(results, func(r eventstore.Result) bool { return r.Status != eventstore.Created }) {
		t.Fatalf("%+v, %v", results, err)
	}
}

// rulesSince notes that the rules are older than they are.
func (a aging) rulesSince(t *testing.T, sequence int64) {
	t.Helper()
	var kept eventstore.KeptBy
	version, err := eventstore.ReadRecord(t.Context(), a, "retention", "rules", &kept)
	if err == nil {
		kept.Since = sequence
		_, err = eventstore.SaveRecord(t.Context(), a, "retention", "rules", version, kept)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// readerOf reads the published events of an exchange.
func (a aging) readerOf(exchange string) subscription.Reader {
	return subscription.Reader{Store: a, Source: source, Query: kql.And{
		kql.FieldIs("event.action", "published"), kql.FieldIs("messaging.destination.name", exchange),
	}}
}

// take reads until the reader has caught up or fails.
func take(t *testing.T, r subscription.Reader, after int64) (got []int64, err error) {
	t.Helper()
	for item, err := range r.Items(t.Context(), eventstore.Cursor{Sequence: after}) {
		if err != nil || item.CaughtUp {
			return got, err
		}
		got = append(got, item.Position.Sequence)
	}
	return got, nil
}

// A reader stops at events that were removed before it has read them, and at no others.
func TestReadersOfRemovedEvents(t *testing.T) {
	eachAging(t, func(t *testing.T, store aging) {
		store.create(t, hours(1, 10)...)
		store.create(t, hours(11, 20)...)
		r := subscription.Reader{Store: store, Source: source}
		if accepted, err := r.Acceptable(t.Context()); accepted != 1 || err != nil {
			t.Errorf("acceptable before a removal: %d, %v", accepted, err)
		}
		store.remove(t, 10*hour)
		for _, after := range []int64{1, 5 * hour, 10*hour - 1} {
			got, err := take(t, r, after)
			var removed *subscription.RemovedError
			if !errors.As(err, &removed) || removed.UpTo != 10*hour || len(got) > 0 {
				t.Errorf("after %d: read %v, %v", after, got, err)
			}
		}
		for _, after := range []int64{0, 10 * hour, 10*hour + 1} {
			if got, err := take(t, r, after); err != nil || !slices.Equal(got, hours(11, 20)) {
				t.Errorf("after %d: read %v, %v", after, got, err)
			}
		}
		failures := r
		failures.Query = kql.FieldIs("event.action", "poisoned")
		if got, err := take(t, failures, 5*hour); err != nil || len(got) > 0 {
			t.Errorf("a reader of failures, of which none was removed, read %v, %v", got, err)
		}
		other := r
		other.Source = "another"
		if got, err := take(t, other, 5*hour); err != nil || len(got) > 0 {
			t.Errorf("a reader of another source read %v, %v", got, err)
		}
		accepted, err := r.Acceptable(t.Context())
		if err != nil || accepted < 10*hour || accepted > 11*hour {
			t.Errorf("acceptable: %d, %v", accepted, err)
		}
		r.Accept = accepted
		if got, err := take(t, r, 5*hour); err != nil || !slices.Equal(got, hours(11, 20)) {
			t.Errorf("a reader that accepts it read %v, %v", got, err)
		}
	})
}

// A reader of events that a rule keeps is not stopped by the removal of others, once the rules were
// applied for longer than it is behind.
func TestReadersOfEventsThatARuleKeeps(t *testing.T) {
	eachAging(t, func(t *testing.T, store aging) {
		store.createOf(t, "ledger", ledgerForever, hours(1, 10)...)
		store.create(t, hours(1, 10)...)
		store.create(t, hours(11, 12)...)
		store.remove(t, 10*hour)
		of := store.readerOf
		stops := func(r subscription.Reader, when string) {
			var removed *subscription.RemovedError
			if got, err := take(t, r, 5*hour); !errors.As(err, &removed) || len(got) > 0 {
				t.Errorf("%s: read %v, %v", when, got, err)
			}
		}
		stops(of("ledger"), "the ledger, with rules that other events may be older than")
		store.rulesSince(t, 4*hour)
		if got, err := take(t, of("ledger"), 5*hour); err != nil || !slices.Equal(got, hours(5, 10)) {
			t.Errorf("of the ledger: read %v, %v", got, err)
		}
		stops(of("shop"), "the shop")
		stops(subscription.Reader{Store: store, Source: source}, "every exchange")
	})
}

// Elasticsearch removes the indices of a period of its own by that period. Only readers of its events stop.
func TestReadersOfAPeriodOfItsOwn(t *testing.T) {
	rules := eventstore.KeepRules{{Exchange: "log", Keep: 48 * time.Hour}}
	store := agingElastic(t, rules, rules.Streams()[0])
	store.createOf(t, "log", rules, hours(1, 10)...)
	store.createOf(t, "shop", rules, hours(1, 9)...)
	store.create(t, hours(10, 10)...) // after which the period's stream is rolled over
	store.createOf(t, "log", rules, hours(11, 12)...)
	store.rulesSince(t, hour)
	if got, err := take(t, store.readerOf("log"), 5*hour); err != nil || !slices.Equal(got, append(hours(5, 10), hours(11, 12)...)) {
		t.Errorf("before the removal: read %v, %v", got, err)
	}
	store.remove(t, 10*hour)
	for name, r := range map[string]subscription.Reader{"its exchange": store.readerOf("log"), "every exchange": {Store: store, Source: source}} {
		var removed *subscription.RemovedError
		if got, err := take(t, r, 5*hour); !errors.As(err, &removed) || removed.UpTo != 10*hour || len(got) > 0 {
			t.Errorf("%s: read %v, %v", name, got, err)
		}
	}
	if got, err := take(t, store.readerOf("log"), 10*hour+1); err != nil || !slices.Equal(got, hours(11, 12)) {
		t.Errorf("after the removed ones: read %v, %v", got, err)
	}
	if got, err := take(t, store.readerOf("shop"), 5*hour); err != nil || !slices.Equal(got, hours(5, 9)) {
		t.Errorf("of another exchange: read %v, %v", got, err)
	}
}

// A subscription that was paused for longer than the retention stops, and goes on without the removed
// events when its operator says so.
func TestASubscriptionThatRetentionOvertakes(t *testing.T) {
	eachAging(t, func(t *testing.T, store aging) {
		r := newRig(t, rabbittest.Either(t))
		r.cfg.Store = store
		s := subscription.New(r.cfg)
		store.create(t, hours(1, 3)...)
		r.create(t, s, toHandler("late"))
		var got positions
		run := func() (stop func()) {
			return r.run(t, s, "late", func(_ context.Context, d subscription.Delivery) error { got.add(d.Position.Sequence); return nil })
		}
		stop := run()
		rabbittest.Eventually(t, "the first are delivered", func() bool { return get(t, s, "late").Checkpoint.Delivered == 3 })
		stop()
		if _, err := s.Pause(t.Context(), "late", "ann", "the database moves"); err != nil {
			t.Fatal(err)
		}
		store.create(t, hours(4, 10)...)
		if p, err := s.Progress(t.Context(), get(t, s, "late")); err != nil || p.CaughtUp || p.Lag < 24*time.Hour {
			t.Errorf("the progress of a paused subscription with seven events to deliver is %+v, %v", p, err)
		}
		store.create(t, hours(11, 12)...)
		store.remove(t, 10*hour)
		if _, err := s.Resume(t.Context(), "late", "ann"); err != nil {
			t.Fatal(err)
		}
		run()
		rabbittest.Eventually(t, "it stops", func() bool { return get(t, s, "late").State == subscription.Stopped })
		if sub := get(t, s, "late"); sub.RemovedUpTo != 10*hour || !strings.Contains(sub.Reason, "were removed by retention") || sub.Checkpoint.Delivered != 3 {
			t.Errorf("it is %+v", sub)
		}
		if _, err := s.ResumeAfterRemoved(t.Context(), "late", "ann"); err != nil {
			t.Fatal(err)
		}
		rabbittest.Eventually(t, "the last are delivered", func() bool { return get(t, s, "late").Checkpoint.Delivered == 5 })
		if sub := get(t, s, "late"); sub.State != subscription.Active || sub.RemovedUpTo != 0 || !slices.Equal(got.list(), append(hours(1, 3), hours(11, 12)...)) {
			t.Errorf("it is %+v, and delivered %v", sub, got.list())
		}
		r.create(t, s, toHandler("new"))
		r.run(t, s, "new", func(context.Context, subscription.Delivery) error { return nil })
		rabbittest.Eventually(t, "a new one is delivered", func() bool { return get(t, s, "new").Checkpoint.Delivered == 2 })
	})
}

package failures_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/config"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/failures"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/system/systemtest"
	"github.com/watershipmq/watership/schemas"
)

// Groups that are resolved by their ids are read together: more ids need no more requests to the
// store.
func TestGroupsAreReadTogether(t *testing.T) {
	to := os.Getenv("WATERSHIP_TEST_STORE_URL")
	if to == "" {
		t.Skip("WATERSHIP_TEST_STORE_URL is not set")
	}
	server, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int32
	proxy := httputil.NewSingleHostReverseProxy(server)
	counted := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(counted.Close)
	cfg, err := config.Load(config.Sources{Environ: []string{
		"WATERSHIP_AMQP_URL=" + config.Embedded, "WATERSHIP_DATA=" + t.TempDir(),
		"WATERSHIP_STORE_URL=" + counted.URL, "WATERSHIP_STORE_STREAM=test-" + fmt.Sprint(time.Now().UnixNano()),
	}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := system.Start(t.Context(), system.Config{Settings: cfg, Name: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	const kinds = 20
	ids := publishFailures(t, a, kinds)
	service := failures.Service{System: a}
	count := func(ids []string) int32 {
		t.Helper()
		requests.Store(0)
		found, err := service.Resolvable(t.Context(), failures.Selected{Query: kql.All{}, Visible: kql.All{}, Groups: ids, UpTo: kinds})
		if err != nil || len(found.Groups) != len(ids) {
			t.Fatalf("%d groups for %d ids, %v", len(found.Groups), len(ids), err)
		}
		return requests.Load()
	}
	count(ids[:1]) // which the store has read then
	if one, all := count(ids[:1]), count(ids); one == 0 || all != one {
		t.Errorf("%d requests for %d groups, %d for one", all, kinds, one)
	}
	if _, err := service.FindAll(t.Context(), append(ids[:2:2], "nobody"), kql.All{}); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("%v", err)
	}
	found, err := service.FindAll(t.Context(), []string{ids[3], ids[1], ids[3]}, kql.All{})
	if err != nil || len(found) != 3 || found[0].ID != ids[3] || found[1].ID != ids[1] || found[2].ID != ids[3] || found[1].Count != 1 {
		t.Errorf("%v, %v", found, err)
	}
}

// failures stores a failure of each of n groups, and returns the ids of the groups.
func publishFailures(t *testing.T, a *system.System, n int) (ids []string) {
	t.Helper()
	store, err := a.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	var documents []schemas.Document
	for i := range n {
		class := fmt.Sprint("class-", i)
		documents = append(documents, schemas.DocumentFormat{}.Document(schemas.Event{
			Action: schemas.Poisoned, Sequence: int64(i + 1), Source: a.Settings().Source, State: schemas.State{
				EventID: fmt.Sprint("e-", i), Time: time.Now(), Queue: "orders", Failure: schemas.Failure{Message: "no stock", Class: class},
			},
		}))
		ids = append(ids, history.Kind{Queue: "orders", Class: class, Group: "no stock"}.ID())
	}
	if _, err := store.Create(t.Context(), documents); err != nil {
		t.Fatal(err)
	}
	if err := store.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ids
}

// Groups are found by their ids however long ago they failed.
func TestGroupsAreFoundOfAnyAge(t *testing.T) {
	sys, _ := systemtest.Embedded(t)
	store, err := sys.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, age := range []time.Duration{-time.Minute, 0, time.Minute, 2 * time.Hour, 30 * time.Hour, 1000 * time.Hour} {
		at := time.Now().Add(-age)
		e := schemas.Event{Action: schemas.Poisoned, Sequence: at.UnixMicro(), Source: "shop", VHost: "/", Envelope: schemas.Envelope{Exchange: "shop", Body: fmt.Append(nil, age)}}
		e.State = schemas.State{EventID: fmt.Sprint("failure-", age), Fingerprint: e.Envelope.Fingerprint(), Time: at, Queue: fmt.Sprint("queue-", age), Failure: schemas.Failure{Message: "no stock", Type: "stock"}}
		if _, err := store.Create(t.Context(), []schemas.Document{schemas.DocumentFormat{}.Document(e)}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, history.KindOf(eventstore.Summarize(e)).ID())
	}
	service := failures.Service{System: sys}
	found, err := service.FindAll(t.Context(), ids, kql.All{})
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range found {
		if alone, err := service.Find(t.Context(), ids[i], kql.All{}); err != nil || g.Count != 1 || alone.Count != 1 || alone.Queue != g.Queue {
			t.Errorf("found %+v, alone %+v, %v", g, alone, err)
		}
	}
	if _, err := service.Find(t.Context(), "aaaaaaaa", kql.All{}); err == nil {
		t.Error("a group was found that never failed")
	}
}

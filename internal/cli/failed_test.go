package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/schemas"
)

func instance(id string) func(*schemas.Event) {
	return func(e *schemas.Event) { e.Message = id }
}

func replayOf(a seeded, n int) func(*schemas.Event) {
	return func(e *schemas.Event) { e.Replay, e.ReplayOf = "job", fmt.Sprintf("%s:%d", a.source, n) }
}

func sameMessage(n int) func(*schemas.Event) {
	return func(e *schemas.Event) {
		e.Envelope.Properties.MessageID = fmt.Sprint("m-", n)
		e.Envelope.Headers = amqp.Table{"n": int64(n)}
		e.Envelope.Body = fmt.Appendf(nil, `{"order":%d}`, n)
	}
}

func quarantined(e *schemas.Event) { *e = e.Quarantine("too many fields") }

func anonymous(e *schemas.Event) { e.Envelope.Properties.MessageID = "" }

func at(queue string) func(*schemas.Event) { return func(e *schemas.Event) { e.Queue = queue } }

func TestFailedGroups(t *testing.T) { bothWays(t, testFailedGroups) }

func testFailedGroups(t *testing.T, seed seeder) {
	a := aFew(t, seed)
	a.keep(t,
		a.event(4, schemas.Poisoned, poisonedAt("orders", "no stock of item 7")),
		a.event(5, schemas.Poisoned, poisonedAt("orders", "no stock of item 9")),
		a.event(6, schemas.Poisoned, poisonedAt("mails", "no stock of item 9")))
	wantLines(t, a.must(t, "failed"), `
		COUNT GROUP QUEUE CLASS TYPE ERROR FIRST LAST EXAMPLE
		2 stm5gyhz orders server http.Status no stock of item # 2026-05-04 03:00:04 2026-05-04 03:00:05 m-5
		1 vndb62mu mails server http.Status no stock of item # 2026-05-04 03:00:06 2026-05-04 03:00:06 m-6
		1 cnqdltjz orders server http.Status no such table: violins 2026-05-04 03:00:03 2026-05-04 03:00:03 m-3
		4 failures in 3 groups`)
	wantLines(t, a.must(t, "failed", "queue: nowhere"), "nothing found")
	if got := a.must(t, "failed", "queue: nowhere", "-o", "json"); strings.TrimSpace(got) != "[]" {
		t.Errorf("no failures as JSON: %s", got)
	}
	a.keep(t, a.event(7, schemas.Poisoned, poisonedAt("orders", "no stock of item 9"), quarantined))
	var groups []history.Group
	if err := json.Unmarshal([]byte(a.must(t, "failed", "queue: orders", "-o", "json")), &groups); err != nil || len(groups) != 3 {
		t.Fatalf("%v, %v", groups, err)
	}
	for _, g := range groups { // the query of a group finds what was counted
		if got := strings.TrimSpace(a.must(t, "search", g.Query, "--count")); got != fmt.Sprint(g.Count) {
			t.Errorf("%s finds %s of %d", g.Query, got, g.Count)
		}
	}
}

// Tens of thousands of failures are found by few requests to the store, which take seconds.
func TestManyFailures(t *testing.T) {
	t.Parallel() // most of it is waiting
	parts := servertest.Newest(t)
	a := seedOn(parts)(t)
	const many = 11_000 // more than a response of Elasticsearch has
	var events []schemas.Event
	for n := range many {
		events = append(events, a.event(2*n+1, schemas.Poisoned, poisonedAt("orders", fmt.Sprint("order ", n, " is lost")), instance(fmt.Sprint("i-", n))))
		if n%2 == 0 {
			events = append(events, a.event(2*n+2, schemas.Handled, sameMessage(2*n+1), at("orders"), replayOf(a, 2*n+1)))
		}
	}
	a.keep(t, events...)
	var requests atomic.Int64
	if !parts.Broker.Own { // SQLite has none
		a.environ = append(a.environ, "WATERSHIP_STORE_URL="+counting(t, parts.StoreURL, &requests))
	}
	began := time.Now()
	got := a.must(t, "failed", "-o", "ndjson")
	var g history.Group
	if err := json.Unmarshal([]byte(got), &g); err != nil || g.Count != many/2 {
		t.Errorf("%d failures are open, %v, want %d", g.Count, err, many/2)
	}
	t.Logf("%d failures, half of them resolved, in %s and %d requests", many, time.Since(began).Round(time.Millisecond), requests.Load())
	if n := requests.Load(); n > many/100 || n == 0 && !parts.Broker.Own {
		t.Errorf("%d requests for %d failures", n, many)
	}
}

// counting returns the URL of a proxy that counts the requests to a store.
func counting(t *testing.T, store string, requests *atomic.Int64) string {
	t.Helper()
	address, err := url.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(address)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Discarding is an event that serve records, and takes a failure off the list.
func TestDiscard(t *testing.T) { servertest.OnEitherInstallation(t, testDiscard) }

func testDiscard(t *testing.T, install servertest.Installer) {
	i := install(t, servertest.Nobody)
	i.Rewrite(t, "index: {batch: {wait: 50ms}}", "index: {batch: {wait: 2s}}")
	i.Serve(t)
	a := seeded{testStore: openStore(t, i.Store, i.Stream), source: "test"}
	a.keep(t, a.event(1, schemas.Poisoned, poisonedAt("orders", "a"), instance("i-1")), a.event(2, schemas.Poisoned, poisonedAt("orders", "b"), instance("i-2")))
	for _, bad := range [][]string{
		{"queue: orders", "--yes"},
		{"--reason", "x", "--yes"},
		{"queue: orders", "--reason", "x"},
		{"--ids", "-", "--dsl", "-", "--reason", "x", "--yes"},
		{"--ids", os.DevNull, "--reason", "x", "--yes"},
	} {
		if r := i.Run(t, append([]string{"failed", "discard"}, bad...)...); r.Code != exitUsage || strings.Count(r.Err, "\n") != 1 {
			t.Errorf("discard %v: exit code %d, %s", bad, r.Code, r.Err)
		}
	}
	paid := servertest.WriteFile(t, "paid.txt", "m-1\n\n")
	const preview = "       1  failed at queue orders\n"
	if got := i.Must(t, "failed", "discard", "--ids", paid, "--reason", "paid by hand", "--yes"); got != preview+"discarded 1 failure\n" {
		t.Error(got)
	}
	if found := i.Search(t, "action: discarded"); len(found) != 1 || !strings.HasPrefix(found[0].Failure.Message, "paid by hand (") { // at once: a replay may follow
		t.Fatalf("in the store are %+v", found)
	}
	slip := servertest.WriteFile(t, "slip.txt", "m-2\nm-222\n")
	if r := i.Run(t, "failed", "discard", "--ids", slip, "error.message: nothing", "--reason", "x", "--yes"); r.Code != exitFailed || r.Out != "       1  not found: m-222\n" {
		t.Errorf("a slip in a list: %+v", r)
	}
	if r := i.Run(t, "failed", "discard", "--ids", paid, "--reason", "again", "--yes"); r.Code != exitFailed {
		t.Errorf("discarding twice: %+v", r)
	}
}

package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/elastic"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/server/servertest"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/schemas"
)

// testStore is a store that a test fills.
type testStore interface {
	system.EventStore
	Close() error
}

// openStore opens what store.url says, until the test ends.
func openStore(t *testing.T, url, stream string) testStore {
	t.Helper()
	var store testStore
	var err error
	if path, isFile := strings.CutPrefix(url, "sqlite:"); isFile {
		store, err = sqlite.Open(t.Context(), sqlite.Config{Path: path})
	} else {
		store, err = elastic.Open(elastic.Config{URLs: []string{url}, Stream: stream})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// seeded is a store with streams of its own, and commands that run in this
// process against it.
type seeded struct {
	testStore
	environ []string
	source  string
}

// seeder makes a store that commands with these settings read.
type seeder func(t *testing.T, settings ...string) seeded

func newSeeded(t *testing.T, settings ...string) seeded {
	t.Helper()
	return seedStore(t, servertest.StoreURL(t), settings)
}

func newSeededFile(t *testing.T, settings ...string) seeded {
	t.Helper()
	return seedStore(t, "sqlite:"+filepath.Join(t.TempDir(), "store.db"), settings)
}

// seedOn makes stores of commands that have the broker of some parts.
func seedOn(p servertest.Parts) seeder {
	return func(t *testing.T, settings ...string) seeded {
		t.Helper()
		return seedStore(t, p.StoreURL, append(settings,
			"WATERSHIP_AMQP_URL="+p.Broker.URL, "WATERSHIP_AMQP_MANAGEMENT_URL="+p.Broker.ManagementURL))
	}
}

func seedStore(t *testing.T, url string, settings []string) seeded {
	t.Helper()
	stream := "test-" + strings.ToLower(rand.Text()[:12])
	store := openStore(t, url, stream)
	if err := store.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	environ := append([]string{
		"WATERSHIP_STORE_URL=" + url, "WATERSHIP_STORE_STREAM=" + stream, "TZ=UTC",
		"WATERSHIP_STORE_RETENTION_TRAFFIC=0", "WATERSHIP_STORE_RETENTION_FAILURES=0", // the events are old
	}, settings...)
	return seeded{store, environ, stream}
}

// call runs a command in this process.
func call(ctx context.Context, in io.Reader, environ []string, args ...string) servertest.Result {
	var out, errs bytes.Buffer
	code := Run(ctx, terminal.Streams{In: in, Out: &out, Err: &errs}, args, environ)
	return servertest.Result{Out: out.String(), Err: errs.String(), Code: code}
}

func (a seeded) call(t *testing.T, args ...string) servertest.Result {
	t.Helper()
	return call(t.Context(), strings.NewReader(""), a.environ, args...)
}

// must runs a command that has to succeed.
func (a seeded) must(t *testing.T, args ...string) string {
	t.Helper()
	r := a.call(t, args...)
	if r.Code != exitOK || r.Err != "" {
		t.Fatalf("watership %s: exit code %d\n%s%s", strings.Join(args, " "), r.Code, r.Out, r.Err)
	}
	return r.Out
}

// happened is when the first event of every test happened.
var happened = time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)

// event is the nth, a second after the one before.
func (a seeded) event(n int, action schemas.Action, change ...func(*schemas.Event)) schemas.Event {
	e := schemas.Event{
		Action: action, TimeSource: wire.TimeOfEvent, Sequence: int64(n), Ingested: happened, Source: a.source, VHost: "/",
		Envelope: schemas.Envelope{
			Exchange: "shop", RoutingKey: "order.created", Headers: amqp.Table{"tenant": "acme", "n": int64(n)},
			Properties: schemas.Properties{MessageID: fmt.Sprint("m-", n), ContentType: "application/json"},
			Body:       fmt.Appendf(nil, `{"order":%d}`, n),
		},
	}
	e.EventID = fmt.Sprintf("%s:%d", a.source, n)
	e.Time = happened.Add(time.Duration(n) * time.Second)
	for _, f := range change {
		f(&e)
	}
	e.BodySize = len(e.Envelope.Body)
	if e.Fingerprint == "" {
		e.Fingerprint = e.Envelope.Fingerprint()
	}
	return e
}

// keep stores events and makes them visible.
func (a seeded) keep(t *testing.T, events ...schemas.Event) {
	t.Helper()
	for len(events) > 0 {
		some := events[:min(len(events), 2000)]
		events = events[len(some):]
		docs := make([]schemas.Document, len(some))
		for i, event := range some {
			docs[i] = schemas.DocumentFormat{}.Document(event)
		}
		results, err := a.Create(t.Context(), docs)
		if err != nil {
			t.Fatal(err)
		}
		for i, result := range results {
			if result.Status != eventstore.Created {
				t.Fatalf("event %s: %+v", docs[i].ID, result)
			}
		}
	}
	if err := a.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// wantLines compares what a command printed line by line, but for white space
// at the ends and how far columns are apart. Times are wanted in UTC, and were
// printed as they are here.
func wantLines(t *testing.T, got, want string) {
	t.Helper()
	if g, w := columnsOf(got), columnsOf(localTimes(want)); g != w {
		t.Errorf("got\n%s\nwant\n%s", g, w)
	}
}

func localTimes(text string) string {
	for _, form := range []struct {
		pattern string
		format  func(time.Time) string
	}{
		{`2026-05-04 03:00:\d\d\.000 UTC`, terminal.Time},
		{`2026-05-04 03:00:\d\d UTC`, terminal.Second},
		{`2026-05-04 03:00:\d\d\.000`, terminal.TimeCell},
		{`2026-05-04 03:00:\d\d`, terminal.SecondCell},
	} {
		text = regexp.MustCompile(form.pattern).ReplaceAllStringFunc(text, func(found string) string {
			_, seconds, _ := strings.Cut(found, ":00:")
			n, _ := strconv.Atoi(seconds[:2])
			return form.format(happened.Add(time.Duration(n) * time.Second))
		})
	}
	return text
}

func columnsOf(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(lines, "\n")
}

// TestMain removes the binary after the tests: it has 50 MB.
func TestMain(m *testing.M) { os.Exit(servertest.WithBuilds(m)) }

// inEitherStore is for what needs no broker.
func inEitherStore(t *testing.T, story func(t *testing.T, seed seeder)) {
	servertest.InForms(t, func(t *testing.T) { story(t, newSeededFile) }, func(t *testing.T) { story(t, newSeeded) })
}

// bothWays is for what a command prints: it reads the store itself, and through the API of a
// server. What the stores find is tested with them.
func bothWays(t *testing.T, story func(t *testing.T, seed seeder)) {
	t.Parallel() // most of it is waiting
	for name, seed := range map[string]seeder{"store": newSeededFile, "api": newSeededServer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story(t, seed)
		})
	}
}

// everyWay is bothWays, and with Elasticsearch.
func everyWay(t *testing.T, story func(t *testing.T, seed seeder)) {
	bothWays(t, story)
	t.Run("servers", func(t *testing.T) {
		t.Parallel()
		story(t, newSeeded)
	})
}

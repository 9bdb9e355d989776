package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/history"
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

// Each case is the life of one message that was given up at queue orders as
// event 3. Consumers of orders report, those of foreign do not.
func TestWhatResolvesAFailure(t *testing.T) { bothWays(t, testWhatResolvesAFailure) }

func testWhatResolvesAFailure(t *testing.T, seed seeder) {
	for name, test := range map[string]struct {
		events func(a seeded) []schemas.Event
		open   string // sequences of the failures left
	}{
		"nothing happened": {func(seeded) []schemas.Event { return nil }, "3"},
		"handled later, the same instance": {func(a seeded) []schemas.Event {
			return []schemas.Event{a.event(5, schemas.Handled, sameMessage(3), at("orders"), instance("i-3"))}
		}, ""},
		"handled before": {func(a seeded) []schemas.Event {
			return []schemas.Event{a.event(2, schemas.Handled, sameMessage(3), at("orders"), instance("i-3"))}
		}, "3"},
		"handled at another queue": {func(a seeded) []schemas.Event {
			return []schemas.Event{a.event(5, schemas.Handled, sameMessage(3), at("mails"), instance("i-3"))}
		}, "3"},
		"handled, but another instance and no replay": {func(a seeded) []schemas.Event {
			return []schemas.Event{a.event(5, schemas.Handled, sameMessage(3), at("orders"), instance("i-9"))}
		}, "3"},
		"replayed, not handled yet": {func(a seeded) []schemas.Event {
			return []schemas.Event{a.event(4, schemas.Replayed, sameMessage(3), at("orders"), replayOf(a, 3))}
		}, "3"},
		"a replay of it handled": {func(a seeded) []schemas.Event {
			return []schemas.Event{a.event(5, schemas.Handled, sameMessage(3), at("orders"), replayOf(a, 3))}
		}, ""},
		"a replay of its published event handled": {func(a seeded) []schemas.Event {
			return []schemas.Event{
				a.event(1, schemas.Published, sameMessage(3)),
				a.event(5, schemas.Handled, sameMessage(3), at("orders"), replayOf(a, 1)),
			}
		}, ""},
		"a replay of its retry, with other headers, handled": {func(a seeded) []schemas.Event {
			return []schemas.Event{
				a.event(2, schemas.RetryScheduled, sameMessage(3), at("orders"), instance("i-3")),
				a.event(4, schemas.Replayed, sameMessage(3), at("orders"), instance("i-3"), replayOf(a, 2)),
				a.event(5, schemas.Handled, sameMessage(3), at("orders"), replayOf(a, 2), func(e *schemas.Event) { e.Envelope.Headers["fixed"] = true }),
			}
		}, ""},
		"a replay of its retry handled, of a message without an id": {func(a seeded) []schemas.Event {
			return []schemas.Event{
				a.event(4, schemas.RetryScheduled, sameMessage(4), anonymous, at("orders"), instance("i-4")),
				a.event(5, schemas.Poisoned, sameMessage(4), anonymous, at("orders"), instance("i-4")),
				a.event(6, schemas.Replayed, sameMessage(4), anonymous, at("orders"), instance("i-4"), replayOf(a, 4)),
				a.event(7, schemas.Handled, sameMessage(4), anonymous, at("orders"), replayOf(a, 4)),
			}
		}, "3"},
		"a replay of it handled at another queue": {func(a seeded) []schemas.Event {
			return []schemas.Event{a.event(5, schemas.Handled, sameMessage(3), at("mails"), replayOf(a, 3))}
		}, "3"},
		"a replay of it given up again": {func(a seeded) []schemas.Event {
			return []schemas.Event{a.event(5, schemas.Poisoned, sameMessage(3), at("orders"), instance("i-5"), replayOf(a, 3))}
		}, "5"},
		"given up again, then handled": {func(a seeded) []schemas.Event {
			return []schemas.Event{
				a.event(5, schemas.Poisoned, sameMessage(3), at("orders"), instance("i-5"), replayOf(a, 3)),
				a.event(7, schemas.Handled, sameMessage(3), at("orders"), replayOf(a, 5)),
			}
		}, ""},
		"given up again and again without an id, then handled": {func(a seeded) []schemas.Event {
			again := func(n int, action schemas.Action, of int) schemas.Event {
				return a.event(n, action, sameMessage(4), anonymous, at("orders"), instance(fmt.Sprint("i-", n)), replayOf(a, of))
			}
			return []schemas.Event{
				a.event(4, schemas.Poisoned, sameMessage(4), anonymous, at("orders"), instance("i-4")),
				again(6, schemas.Poisoned, 4), again(8, schemas.Poisoned, 6), again(10, schemas.Handled, 8),
				a.event(11, schemas.Poisoned, sameMessage(4), anonymous, at("orders"), instance("i-11")),
			}
		}, "3 11"},
		"discarded": {func(a seeded) []schemas.Event {
			return []schemas.Event{a.event(5, schemas.Discarded, sameMessage(3), at("orders"), func(e *schemas.Event) { e.ReplayOf = a.source + ":3" })}
		}, ""},
		"given up again, which the store refused to record": {func(a seeded) []schemas.Event {
			return []schemas.Event{a.event(5, schemas.Poisoned, sameMessage(3), at("orders"), instance("i-5"), replayOf(a, 3), quarantined)}
		}, "5"},
		"discarded, which the store refused to record": {func(a seeded) []schemas.Event {
			return []schemas.Event{a.event(5, schemas.Discarded, sameMessage(3), at("orders"), func(e *schemas.Event) { e.ReplayOf = a.source + ":3" }, quarantined)}
		}, ""},
		"an equal message without an id handled": {func(a seeded) []schemas.Event {
			return []schemas.Event{
				a.event(4, schemas.Poisoned, sameMessage(4), anonymous, at("orders"), instance("i-4")),
				a.event(5, schemas.Poisoned, sameMessage(4), anonymous, at("orders"), instance("i-5")),
				a.event(6, schemas.Handled, sameMessage(4), anonymous, at("orders"), replayOf(a, 4)),
			}
		}, "3 5"},
		"a foreign queue's failure, replayed": {func(a seeded) []schemas.Event {
			return []schemas.Event{
				a.event(4, schemas.Poisoned, sameMessage(4), at("foreign"), instance("i-4")),
				a.event(5, schemas.Replayed, sameMessage(4), at("foreign"), replayOf(a, 4)),
			}
		}, "3"},
		"a foreign queue's failure, replayed to where it came from": {func(a seeded) []schemas.Event {
			return []schemas.Event{
				a.event(4, schemas.Poisoned, sameMessage(4), at("foreign"), instance("i-4")),
				a.event(5, schemas.Handled, sameMessage(4), at("mail")),
				a.event(6, schemas.Replayed, sameMessage(4), at(""), replayOf(a, 5)),
			}
		}, "3"},
		"a foreign queue's failure, replayed to another": {func(a seeded) []schemas.Event {
			return []schemas.Event{
				a.event(4, schemas.Poisoned, sameMessage(4), at("foreign"), instance("i-4")),
				a.event(5, schemas.Replayed, sameMessage(4), at("other"), replayOf(a, 4)),
			}
		}, "3 4"},
		"a foreign queue's failure, failed again": {func(a seeded) []schemas.Event {
			return []schemas.Event{
				a.event(4, schemas.Poisoned, sameMessage(4), at("foreign"), instance("i-4")),
				a.event(5, schemas.Replayed, sameMessage(4), at("foreign"), replayOf(a, 4)),
				a.event(6, schemas.Poisoned, sameMessage(4), at("foreign"), instance("i-6")),
			}
		}, "3 6"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := seed(t)
			events := append(test.events(a),
				a.event(3, schemas.Poisoned, sameMessage(3), at("orders"), instance("i-3")),
				a.event(100, schemas.Handled, at("orders"))) // so that orders reports
			a.keep(t, events...)
			var open []int64
			for _, fact := range openFailures(t, a) {
				open = append(open, fact.Sequence)
			}
			if got := strings.Trim(fmt.Sprint(open), "[]"); got != test.open {
				t.Errorf("open are %q, want %q", got, test.open)
			}
		})
	}
}

// A route without a handler only has the policy of the dead letters of its queue. Its
// consumer reports nothing, so that a replay resolves its failures.
func TestAReplayToARouteWithoutAHandlerResolves(t *testing.T) {
	bothWays(t, func(t *testing.T, seed seeder) {
		a := seed(t, "WATERSHIP_ROUTES=[{queue: foreign}, {queue: orders, handler: {http: {url: 'http://localhost/'}}}]")
		a.keep(t,
			a.event(4, schemas.Poisoned, sameMessage(4), at("foreign"), instance("i-4")),
			a.event(5, schemas.Replayed, sameMessage(4), at("foreign"), replayOf(a, 4)),
			a.event(6, schemas.Poisoned, sameMessage(6), at("orders"), instance("i-6")),
			a.event(7, schemas.Replayed, sameMessage(6), at("orders"), replayOf(a, 6)),
		)
		if got := a.must(t, "failed"); strings.Contains(got, "foreign") || !strings.Contains(got, "1 failure in 1 group") {
			t.Errorf("failed prints\n%s", got)
		}
	})
}

func openFailures(t *testing.T, a seeded) []eventstore.EventSummary {
	t.Helper()
	f, err := history.NewFailures(t.Context(), a.testStore, nil)
	if err != nil {
		t.Fatal(err)
	}
	var list []eventstore.EventSummary
	for fact, err := range f.Open(t.Context(), kql.All{}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fact)
	}
	return list
}

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

// Tens of thousands of failures take seconds.
func TestManyFailures(t *testing.T) {
	t.Parallel() // most of it is waiting
	a := newest(t).seed(t)
	const many = 11_000 // more than a response of Elasticsearch has
	var events []schemas.Event
	for n := range many {
		events = append(events, a.event(2*n+1, schemas.Poisoned, poisonedAt("orders", fmt.Sprint("order ", n, " is lost")), instance(fmt.Sprint("i-", n))))
		if n%2 == 0 {
			events = append(events, a.event(2*n+2, schemas.Handled, sameMessage(2*n+1), at("orders"), replayOf(a, 2*n+1)))
		}
	}
	a.keep(t, events...)
	began := time.Now()
	got := a.must(t, "failed", "-o", "ndjson")
	var g history.Group
	if err := json.Unmarshal([]byte(got), &g); err != nil || g.Count != many/2 {
		t.Errorf("%d failures are open, %v, want %d", g.Count, err, many/2)
	}
	t.Logf("%d failures, half of them resolved, in %s", many, time.Since(began).Round(time.Millisecond))
	if took := time.Since(began); took > time.Minute {
		t.Errorf("took %s", took)
	}
}

// Discarding is an event that serve records, and takes a failure off the list.
func TestDiscard(t *testing.T) { everywhere(t, testDiscard) }

func testDiscard(t *testing.T, install installer) {
	i := install(t, nobody)
	i.rewrite(t, "index: {batch: {wait: 50ms}}", "index: {batch: {wait: 2s}}")
	i.serve(t)
	a := seeded{testStore: openStore(t, i.store, i.stream), source: "test"}
	a.keep(t,
		a.event(1, schemas.Poisoned, poisonedAt("orders", "a"), instance("i-1")),
		a.event(2, schemas.Poisoned, poisonedAt("orders", "b"), instance("i-2")),
		a.event(3, schemas.Poisoned, poisonedAt("mails", "c"), anonymous))
	for _, bad := range [][]string{
		{"queue: orders", "--yes"},
		{"--reason", "x", "--yes"},
		{"queue: orders", "--reason", "x"},
		{"--ids", "-", "--dsl", "-", "--reason", "x", "--yes"},
		{"--ids", os.DevNull, "--reason", "x", "--yes"},
	} {
		if r := i.run(t, append([]string{"failed", "discard"}, bad...)...); r.code != exitUsage || strings.Count(r.err, "\n") != 1 {
			t.Errorf("discard %v: exit code %d, %s", bad, r.code, r.err)
		}
	}
	paid := writeFile(t, "paid.txt", "m-1\n\n")
	const preview = "       1  failed at queue orders\n"
	if got := i.must(t, "failed", "discard", "--ids", paid, "--dry-run"); got != preview {
		t.Error(got)
	}
	if got := i.must(t, "failed", "discard", "--ids", paid, "--reason", "paid by hand", "--yes"); got != preview+"discarded 1 failure\n" {
		t.Error(got)
	}
	found := i.search(t, "action: discarded") // at once: a replay may follow
	if len(found) != 1 {
		t.Fatalf("%d events are in the store, want 1", len(found))
	}
	discarded := found[0]
	if discarded.Message != "i-1" || discarded.Queue != "orders" || discarded.ReplayOf != "test:1" ||
		!strings.HasPrefix(discarded.Failure.Message, "paid by hand (") || discarded.BodyIn == schemas.BodyHere {
		t.Errorf("the event is %+v", discarded)
	}
	slip := writeFile(t, "slip.txt", "m-2\nm-222\n")
	if r := i.run(t, "failed", "discard", "--ids", slip, "error.message: nothing", "--reason", "x", "--yes"); r.code != exitFailed || r.out != "       1  not found: m-222\n" {
		t.Errorf("a slip in a list: %+v", r)
	}
	i.must(t, "failed", "discard", "error.message: c", "--reason", "no body knows", "--yes")
	i.eventually(t, "action: discarded", 2)
	open := openFailures(t, a)
	if !slices.ContainsFunc(open, func(f eventstore.EventSummary) bool { return f.MessageID == "m-2" }) || len(open) != 1 {
		t.Errorf("open are %+v", open)
	}
	if r := i.run(t, "failed", "discard", "--ids", paid, "--reason", "again", "--yes"); r.code != exitFailed {
		t.Errorf("discarding twice: %+v", r)
	}
}

package history

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/eventstore/sqlite"
	"github.com/watershipmq/watership/schemas"
)

// TestOpenFailuresAreThoseOfTheModel: the store finds the same unresolved failures, and groups
// of them, as a model that reads all events and knows from the beginning which consumers report.
func TestOpenFailuresAreThoseOfTheModel(t *testing.T) {
	resolved, seeds := 0, uint64(4)
	if os.Getenv("WATERSHIP_TEST_SOAK") != "" {
		seeds = 10
	}
	for seed := range seeds {
		lives := &generatedLives{Rand: rand.New(rand.NewPCG(seed, 1))}
		for range 60 {
			lives.addMessage()
		}
		store := filledStore(t, lives.events)
		failures, err := NewFailures(t.Context(), store, []string{"mail"})
		if err != nil {
			t.Fatal(err)
		}
		for _, within := range []kql.Node{nil, kql.FieldIs("watership.queue", "orders"), kql.Not{Node: kql.FieldIs("messaging.message.id", "m-1")}} {
			got, want := openIDs(t, failures, within), lives.open(t, within, "mail")
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: unresolved are %q, want %q", seed, got, want)
			}
			resolved += len(lives.list(kql.And{GivenUp(), node(within)})) - len(want)
		}
		groups, err := failures.Groups(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		grouped := 0
		for _, g := range groups {
			grouped += g.Count
		}
		if all := lives.open(t, nil, "mail"); grouped != len(all) {
			t.Errorf("seed %d: %d in groups, want %d", seed, grouped, len(all))
		}
	}
	if resolved < int(10*seeds) {
		t.Errorf("only %d failures are resolved", resolved)
	}
}

// node returns a query for all events for nil.
func node(within kql.Node) kql.Node {
	if within == nil {
		return kql.All{}
	}
	return within
}

func openIDs(t *testing.T, f Failures, within kql.Node) (ids []string) {
	t.Helper()
	for failure, err := range f.Open(t.Context(), node(within)) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, failure.EventID)
	}
	return ids
}

func filledStore(t *testing.T, events []schemas.Event) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "store.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if err := store.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	docs := make([]schemas.Document, len(events))
	for i, e := range events {
		docs[i] = schemas.DocumentFormat{}.Document(e)
	}
	if _, err := store.Create(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	return store
}

// generatedLives are the events of random messages, and a store of them.
type generatedLives struct {
	*rand.Rand
	events []schemas.Event
}

func (g *generatedLives) pick(list ...string) string { return list[g.IntN(len(list))] }

// addMessage adds a message and what became of it, in a random order. Some messages are equal
// and without an id, and many events refer to earlier ones of the same message.
func (g *generatedLives) addMessage() {
	number := g.IntN(40)
	envelope := schemas.Envelope{Exchange: "shop", RoutingKey: "order", Body: fmt.Append(nil, number), Headers: amqp.Table{}}
	if number%4 > 0 {
		envelope.Properties.MessageID = fmt.Sprint("m-", number)
	}
	instances, ids := []string{fmt.Sprint("instance-", len(g.events)), ""}, []string{"", "unknown"}
	for range 1 + g.IntN(6) {
		e := schemas.Event{
			Action:   []schemas.Action{schemas.Poisoned, schemas.Poisoned, schemas.Handled, schemas.Replayed, schemas.Discarded, schemas.RetryScheduled, schemas.Published}[g.IntN(7)],
			Envelope: envelope, BodySize: len(envelope.Body), BodyIn: schemas.BodyHere,
		}
		e.EventID, e.Sequence = fmt.Sprintf("event-%04d", len(g.events)), int64(1+g.IntN(300))
		e.Time, e.Fingerprint = time.UnixMilli(1_770_000_000_000+e.Sequence), envelope.Fingerprint()
		if e.Action != schemas.Published {
			e.Queue, e.Message = g.pick("orders", "mail", "invoices", "labels"), g.pick(instances...)
		}
		if e.Action == schemas.Replayed || e.Action == schemas.Discarded || g.IntN(3) == 0 {
			e.ReplayOf, e.Replay = g.pick(ids...), "job"
		}
		if e.Action == schemas.Poisoned || e.Action == schemas.RetryScheduled {
			e.Failure = schemas.Failure{Message: g.pick("no stock", "no address"), Type: "*errors.errorString", Class: "default"}
		}
		if e.Action == schemas.Handled && e.Queue == "labels" {
			e.Queue = "" // no consumer of labels reports
		}
		ids = append(ids, e.EventID)
		if g.IntN(10) == 0 {
			e = e.Quarantine("too many fields")
		}
		g.events = append(g.events, e)
	}
}

// open returns the ids of the unresolved failures, each of which it looks up alone. Queues with
// `handled` events report, and others.
func (g *generatedLives) open(t *testing.T, within kql.Node, others ...string) (ids []string) {
	t.Helper()
	reporting := map[string]bool{}
	for _, queue := range others {
		reporting[queue] = true
	}
	for _, e := range g.events {
		if e.Action == schemas.Handled {
			reporting[e.Queue] = true
		}
	}
	for _, e := range g.list(kql.And{GivenUp(), node(within)}) {
		failure, found := eventstore.Summarize(e), newEventIndex()
		if err := found.read(t.Context(), g, []eventstore.EventSummary{failure}, 0); err != nil {
			t.Fatal(err)
		}
		if !found.followUpOf(failure, math.MaxInt64).resolution(func(queue string) bool { return reporting[queue] }).Resolved() {
			ids = append(ids, failure.EventID)
		}
	}
	return ids
}

// Summaries implements Store.
func (g *generatedLives) Summaries(_ context.Context, sel eventstore.Selection, either ...eventstore.FieldIn) iter.Seq2[eventstore.EventSummary, error] {
	return func(yield func(eventstore.EventSummary, error) bool) {
		for _, e := range g.list(sel.Query) {
			if len(either) > 0 && !slices.ContainsFunc(either, func(in eventstore.FieldIn) bool { return slices.Contains(in.Values, valueOf(e, in.Field)) }) {
				continue
			}
			if !yield(eventstore.Summarize(e), nil) {
				return
			}
		}
	}
}

func (g *generatedLives) list(query kql.Node) (events []schemas.Event) {
	for _, e := range g.events {
		if matches(query, e) {
			events = append(events, e)
		}
	}
	slices.SortFunc(events, func(a, b schemas.Event) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.EventID, b.EventID))
	})
	return events
}

// matches decides about the queries of this package.
func matches(query kql.Node, e schemas.Event) bool {
	switch n := query.(type) {
	case kql.And:
		return !slices.ContainsFunc(n, func(part kql.Node) bool { return !matches(part, e) })
	case kql.Or:
		return slices.ContainsFunc(n, func(part kql.Node) bool { return matches(part, e) })
	case kql.Not:
		return !matches(n.Node, e)
	case kql.Is:
		return valueOf(e, n.Field.Text()) == n.Value.Pattern.Text()
	case kql.Exists:
		return valueOf(e, n.Field.Text()) != ""
	}
	return true
}

func valueOf(e schemas.Event, field string) string {
	values := map[string]string{
		"event.action": string(e.Action), "watership.queue": e.Queue, "watership.message": e.Message,
		"watership.fingerprint": e.Fingerprint, "watership.replay.of": e.ReplayOf, "messaging.message.id": e.Envelope.Properties.MessageID,
	}
	if e.Action == schemas.Quarantined {
		values["watership.quarantined_action"] = string(e.RecordedAction())
	}
	return values[field]
}

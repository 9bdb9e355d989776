package outbox_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/internal/database/databasetest"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/outbox"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/streamid"
)

// appendTo commits events of a stream.
func appendTo(ctx context.Context, db *sql.DB, stream string, expected int64, events ...schemas.Envelope) error {
	return database.InTx(ctx, db, func(tx *sql.Tx) error { return outbox.Append(ctx, tx, stream, expected, events...) })
}

func load(t testing.TB, db *sql.DB, stream string) (events []schemas.Envelope, version int64) {
	t.Helper()
	err := database.InTx(t.Context(), db, func(tx *sql.Tx) (err error) {
		events, version, err = outbox.Load(t.Context(), tx, stream)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return events, version
}

// What Append publishes is what Load returns, with stream and version as headers.
func TestAppend(t *testing.T) {
	b := rabbittest.Embedded(t)
	streams, err := streamid.New(streamid.Rule{ID: "{headers." + outbox.StreamHeader + "}", Version: "{headers." + outbox.VersionHeader + "}"})
	if err != nil {
		t.Fatal(err)
	}
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		install(t, db.DB)
		queue, deliveries := consume(t, b.URL, rabbittest.Name(t))
		startRelay(t, outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: b.URL}})
		headers := amqp.Table{"n": int32(7)}
		created := schemas.Envelope{RoutingKey: queue, Body: []byte{0, 255}, Headers: headers, Properties: schemas.Properties{Type: "created"}}
		ctx := t.Context()
		if err := errors.Join(appendTo(ctx, db.DB, "order-42", 0, created, schemas.Envelope{RoutingKey: queue}), appendTo(ctx, db.DB, "order-42", 2, created)); err != nil {
			t.Fatal(err)
		}
		events, version := load(t, db.DB, "order-42")
		if version != 3 || len(events) != 3 || len(headers) != 1 {
			t.Fatalf("version %d of %d events; the caller's headers are %v", version, len(events), headers)
		}
		for i, stored := range events {
			if diff := cmp.Diff(stored, schemas.FromDelivery(rabbittest.Receive(t, deliveries)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("event %d (-loaded +published):\n%s", i, diff)
			}
			if found := streams(stored); found != (schemas.MessageStream{ID: "order-42", Version: int64(i + 1), HasVersion: true}) {
				t.Errorf("event %d with the headers %v is of %+v", i, stored.Headers, found)
			}
		}
		if events, version := load(t, db.DB, "order-43"); len(events) != 0 || version != 0 {
			t.Errorf("a stream without events has version %d and %d events", version, len(events))
		}
	})
}

// An append at another version than that of the stream has no effect.
func TestAppendAtAnotherVersion(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		install(t, db.DB)
		ctx, event := t.Context(), schemas.Envelope{RoutingKey: "orders"}
		if err := appendTo(ctx, db.DB, "order-42", 0, event, event); err != nil {
			t.Fatal(err)
		}
		for _, expected := range []int64{0, 1, 3} {
			if err := appendTo(ctx, db.DB, "order-42", expected, event); !errors.Is(err, outbox.ErrConflict) {
				t.Errorf("appended after version %d: %v", expected, err)
			}
		}
		if err := appendTo(ctx, db.DB, "order-43", 1, event); !errors.Is(err, outbox.ErrConflict) {
			t.Errorf("appended after version 1 of a stream without events: %v", err)
		}
		if _, version := load(t, db.DB, "order-42"); version != 2 || count(t, db.DB, "watership_outbox") != 2 {
			t.Errorf("the stream has version %d, and %d messages are to be published", version, count(t, db.DB, "watership_outbox"))
		}
	})
}

func TestMistakesOfAppend(t *testing.T) {
	db := databasetest.SQLite(t)
	install(t, db.DB)
	for _, mistake := range []struct {
		stream   string
		expected int64
		event    schemas.Envelope
		want     string
	}{
		{"", 0, schemas.Envelope{}, `"" cannot be the id of a stream`},
		{strings.Repeat("x", 513), 0, schemas.Envelope{}, "expected 1 to 512 bytes"},
		{"a\nb", 0, schemas.Envelope{}, "cannot be the id of a stream"},
		{"order-42", -1, schemas.Envelope{}, "expected version -1 of stream order-42"},
		{"order-42", 0, schemas.Envelope{Headers: amqp.Table{"x": struct{}{}}}, "its headers cannot be published"},
	} {
		if err := appendTo(t.Context(), db.DB, mistake.stream, mistake.expected, mistake.event); err == nil || !strings.Contains(err.Error(), mistake.want) {
			t.Errorf("%+v: %v", mistake, err)
		}
	}
	if err := appendTo(t.Context(), db.DB, "order-42", 7); err != nil {
		t.Errorf("an append of no events: %v", err)
	}
}

// A transaction that read the stream before another one appended cannot append, whatever its isolation is.
func TestAppendAfterAReadThatIsOld(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		install(t, db.DB)
		for _, isolation := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelRepeatableRead, sql.LevelSerializable} {
			if db.Driver == "sqlite" && isolation == sql.LevelRepeatableRead {
				continue // SQLite has no such level
			}
			t.Run(isolation.String(), func(t *testing.T) {
				ctx, event := t.Context(), schemas.Envelope{RoutingKey: "orders"}
				tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: isolation})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = tx.Rollback() }()
				_, version, err := outbox.Load(ctx, tx, isolation.String())
				if err != nil {
					t.Fatal(err)
				}
				if err := appendTo(ctx, db.DB, isolation.String(), 0, event); err != nil {
					t.Fatal(err)
				}
				if err := outbox.Append(ctx, tx, isolation.String(), version, event); !errors.Is(err, outbox.ErrConflict) {
					t.Errorf("appended after an old version: %v", err)
				}
			})
		}
	})
}

// Two writers decide on what they load. Each version is appended once, in the outbox as in the stream, and no
// decision is lost.
func TestWritersRace(t *testing.T) {
	const each = 60
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) { testWritersRace(t, db, each) })
}

func TestSoakWritersRace(t *testing.T) {
	if os.Getenv("WATERSHIP_TEST_SOAK") == "" {
		t.Skip("WATERSHIP_TEST_SOAK is not set")
	}
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) { testWritersRace(t, db, 50_000) })
}

// The body of an event is the number of events before it, which the writer has read.
func testWritersRace(t *testing.T, db databasetest.Database, each int) {
	t.Helper()
	install(t, db.DB)
	var writers sync.WaitGroup
	failures := make(chan error, 2)
	for writer := range 2 {
		writers.Go(func() {
			for n := 0; n < each; {
				stream := fmt.Sprintf("counter-%d", n/50) // of 100 events
				err := database.InTx(t.Context(), db.DB, func(tx *sql.Tx) error { return increment(t.Context(), tx, stream, writer) })
				switch {
				case err == nil:
					n++
				case !errors.Is(err, outbox.ErrConflict):
					failures <- err
					return
				}
			}
		})
	}
	writers.Wait()
	close(failures)
	for err := range failures {
		t.Fatal(err)
	}
	checkRace(t, db.DB, 2*each)
}

// increment appends the number of events to a stream.
func increment(ctx context.Context, tx *sql.Tx, stream string, writer int) error {
	events, version, err := outbox.Load(ctx, tx, stream)
	if err != nil {
		return err
	}
	return outbox.Append(ctx, tx, stream, version, schemas.Envelope{
		RoutingKey: "counters", Body: fmt.Append(nil, len(events)), Properties: schemas.Properties{AppID: fmt.Sprint(writer)},
	})
}

func checkRace(t *testing.T, db *sql.DB, want int) {
	t.Helper()
	total := 0
	for n := 0; ; n++ {
		events, version := load(t, db, fmt.Sprintf("counter-%d", n))
		if version == 0 {
			break
		}
		if int64(len(events)) != version {
			t.Errorf("version %d of %d events", version, len(events))
		}
		for i, e := range events {
			if string(e.Body) != fmt.Sprint(i) || e.Headers[outbox.VersionHeader] != int64(i+1) {
				t.Fatalf("event %d is %s with version %v", i, e.Body, e.Headers[outbox.VersionHeader])
			}
		}
		total += len(events)
	}
	if total != want || count(t, db, "watership_outbox") != want {
		t.Errorf("%d events, %d messages; want %d", total, count(t, db, "watership_outbox"), want)
	}
	checkOutboxOrder(t, db)
}

// checkOutboxOrder checks that the messages of each stream are published in the order of their versions.
func checkOutboxOrder(t *testing.T, db *sql.DB) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), `SELECT s.stream, s.version FROM watership_outbox o
		JOIN watership_stream_event s ON s.properties = o.properties ORDER BY o.id`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	last := map[string]int64{}
	for rows.Next() {
		var stream string
		var version int64
		if err := rows.Scan(&stream, &version); err != nil {
			t.Fatal(err)
		}
		if version != last[stream]+1 {
			t.Fatalf("version %d of stream %s is published after version %d", version, stream, last[stream])
		}
		last[stream] = version
	}
	if err := rows.Err(); err != nil || len(last) == 0 {
		t.Errorf("%d streams, %v", len(last), err)
	}
}

// The recipe for events of other stores is the one of ExampleAppend_storedElsewhere.
func TestTheStoredEventsOfThePage(t *testing.T) {
	page, err := os.ReadFile("../docs/coming-from.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("stored_example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(example), "// stored is")
	code, _, _ = strings.Cut("// stored is"+code, "\n// Events of KurrentDB")
	if !strings.Contains(string(page), "```go\n"+code+"```\n") {
		t.Errorf("docs/coming-from.md does not have the recipe:\n%s", code)
	}
}

// The aggregate of the guide is the one of ExampleAppend.
func TestTheAggregateOfTheGuide(t *testing.T) {
	page, err := os.ReadFile("../docs/streams.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("aggregate_example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(example), "// account is")
	code, _, _ = strings.Cut("// account is"+code, "\n// An aggregate")
	if !strings.Contains(string(page), "```go\n"+code+"```\n") {
		t.Errorf("docs/streams.md does not have the aggregate of ExampleAppend:\n%s", code)
	}
}

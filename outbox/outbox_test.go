package outbox_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/broker"
	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/internal/database/databasetest"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/outbox"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/schemas"
)

// TestMain relays in another process, if it is one.
func TestMain(m *testing.M) {
	if os.Getenv("WATERSHIP_TEST_RELAY_URL") == "" {
		os.Exit(m.Run())
	}
	db, err := sql.Open(os.Getenv("WATERSHIP_TEST_DRIVER"), os.Getenv("WATERSHIP_TEST_ADDRESS"))
	if err == nil {
		var r *outbox.Relay
		if r, err = outbox.NewRelay(outbox.RelayConfig{DB: db, Connection: rabbitmq.Connection{URL: os.Getenv("WATERSHIP_TEST_RELAY_URL")}, Lease: 300 * time.Millisecond, Interval: time.Millisecond}); err == nil {
			err = r.Run(context.Background())
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func install(t testing.TB, db *sql.DB) {
	t.Helper()
	if err := outbox.Install(t.Context(), db); err != nil {
		t.Fatal(err)
	}
}

// publish commits messages in one transaction.
func publish(t testing.TB, db *sql.DB, messages ...schemas.Envelope) {
	t.Helper()
	err := database.InTx(t.Context(), db, func(tx *sql.Tx) error { return outbox.Publish(t.Context(), tx, messages...) })
	if err != nil {
		t.Fatal(err)
	}
}

func startRelay(t testing.TB, cfg outbox.RelayConfig) *outbox.Relay {
	t.Helper()
	cfg.Interval = time.Millisecond
	r, err := outbox.NewRelay(cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, r.Run)
	return r
}

func run(t testing.TB, part func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// consume declares a queue with a name of the test, and returns its deliveries.
func consume(t testing.TB, url, name string) (queue string, deliveries <-chan amqp.Delivery) {
	t.Helper()
	conn, err := amqp.Dial(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	if err == nil {
		_, err = ch.QueueDeclare(name, true, false, false, false, nil)
	}
	if err == nil {
		t.Cleanup(func() { _, _ = ch.QueueDelete(name, false, false, false) })
		deliveries, err = ch.Consume(name, "", true, false, false, false, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name, deliveries
}

func TestPublishedIfTheTransactionCommits(t *testing.T) {
	rabbittest.Each(t, func(t *testing.T, b rabbittest.Broker) {
		databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
			install(t, db.DB)
			queue, deliveries := consume(t, b.URL, rabbittest.Name(t))
			startRelay(t, outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: b.URL}})
			full := schemas.Envelope{
				RoutingKey: queue, Body: []byte{0, 255}, Headers: amqp.Table{"n": int32(7), "t": amqp.Table{"a": true}, "text": "\xff"},
				Properties: schemas.Properties{
					ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: 1, Priority: 3, CorrelationID: "c", ReplyTo: "r",
					Expiration: "600000", MessageID: "id", Timestamp: time.Unix(1764000000, 0), Type: "order", AppID: "app",
				},
			}
			failed := errors.New("no stock")
			err := database.InTx(t.Context(), db.DB, func(tx *sql.Tx) error {
				return errors.Join(outbox.Publish(t.Context(), tx, schemas.Envelope{RoutingKey: queue, Body: []byte("rolled back")}), failed)
			})
			if !errors.Is(err, failed) {
				t.Fatal(err)
			}
			publish(t, db.DB, full, schemas.Envelope{RoutingKey: queue})
			first, second := schemas.FromDelivery(rabbittest.Receive(t, deliveries)), rabbittest.Receive(t, deliveries)
			if diff := cmp.Diff(full, first); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if second.MessageId == "" || second.DeliveryMode != amqp.Persistent || len(second.Body) != 0 {
				t.Errorf("a message without properties is %+v", second)
			}
			awaitEmpty(t, db.DB)
		})
	})
}

func awaitEmpty(t *testing.T, db *sql.DB) {
	t.Helper()
	rabbittest.Eventually(t, "the outbox is empty", func() bool { return count(t, db, "watership_outbox") == 0 })
}

func count(t *testing.T, db *sql.DB, table string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// Relays are killed, and connections cut, while messages arrive: each is published, in order
// but for repeats, which have the same id.
func TestRelaysKilledAtRandom(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		install(t, db.DB)
		b := broker.Start(t, broker.Config{})
		queue, deliveries := consume(t, b.URL(), "invoices")
		kills, kill := relays(t, db, b.URL(), 2)
		n := 0
		for deadline := time.Now().Add(8 * time.Second); time.Now().Before(deadline); {
			var messages []schemas.Envelope
			for range 1 + rand.IntN(50) {
				n++
				messages = append(messages, schemas.Envelope{RoutingKey: queue, Body: []byte(strconv.Itoa(n)), Properties: schemas.Properties{MessageID: fmt.Sprint("m", n)}})
			}
			publish(t, db.DB, messages...)
			switch rand.IntN(12) {
			case 0:
				kill()
			case 1:
				b.Inject(broker.Fault{Times: 1, Do: broker.Nack()})
			}
			time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		}
		seen, repeats, late, highest := map[int]bool{}, 0, 0, 0
		for len(seen) < n {
			d := rabbittest.Receive(t, deliveries)
			number, err := strconv.Atoi(string(d.Body))
			if err != nil || d.MessageId != fmt.Sprint("m", number) {
				t.Fatalf("got %s with id %s: %v", d.Body, d.MessageId, err)
			}
			switch {
			case seen[number]:
				repeats++
			case number < highest:
				late++ // the broker had refused it
			}
			seen[number], highest = true, max(highest, number)
		}
		awaitEmpty(t, db.DB)
		t.Logf("%d messages, %d kills, %d repeats, %d after a refusal", n, *kills, repeats, late)
		if *kills == 0 {
			t.Error("nothing was killed: the test shows nothing")
		}
	})
}

// relays runs processes that relay, each again after it was killed.
func relays(t *testing.T, db databasetest.Database, url string, processes int) (kills *int, kill func()) {
	t.Helper()
	var mu sync.Mutex // guards running
	running := map[int]*exec.Cmd{}
	for i := range processes {
		run(t, func(ctx context.Context) error {
			for ctx.Err() == nil {
				cmd := exec.CommandContext(ctx, os.Args[0])
				cmd.Env = append(os.Environ(), "WATERSHIP_TEST_RELAY_URL="+url, "WATERSHIP_TEST_DRIVER="+db.Driver, "WATERSHIP_TEST_ADDRESS="+db.Address)
				mu.Lock()
				err := cmd.Start()
				running[i] = cmd
				mu.Unlock()
				if err != nil {
					return err
				}
				_ = cmd.Wait()
			}
			return nil
		})
	}
	kills = new(int)
	return kills, func() {
		mu.Lock()
		defer mu.Unlock()
		if cmd := running[rand.IntN(processes)]; cmd != nil && cmd.Process.Kill() == nil {
			*kills++
		}
	}
}

// Without faults the order is that of the transactions.
func TestOrder(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		install(t, db.DB)
		b := broker.Start(t, broker.Config{})
		queue, deliveries := consume(t, b.URL(), "invoices")
		for range 2 {
			startRelay(t, outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: b.URL()}})
		}
		for n := range 60 {
			var messages []schemas.Envelope
			for i := range 40 {
				messages = append(messages, schemas.Envelope{RoutingKey: queue, Body: []byte(strconv.Itoa(n*40 + i))})
			}
			publish(t, db.DB, messages...)
		}
		for n := range 60 * 40 {
			if d := rabbittest.Receive(t, deliveries); string(d.Body) != strconv.Itoa(n) {
				t.Fatalf("message %d is %s", n, d.Body)
			}
		}
	})
}

// A message that no queue gets waits, and holds up no other.
func TestRefused(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		install(t, db.DB)
		b := broker.Start(t, broker.Config{})
		queue, deliveries := consume(t, b.URL(), "invoices")
		publish(t, db.DB, schemas.Envelope{RoutingKey: "later", Properties: schemas.Properties{MessageID: "a"}}, schemas.Envelope{RoutingKey: queue, Body: []byte("b")})
		r := startRelay(t, outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: b.URL()}})
		if d := rabbittest.Receive(t, deliveries); string(d.Body) != "b" {
			t.Errorf("got %s", d.Body)
		}
		rabbittest.Eventually(t, "the first message is refused", func() bool {
			refused, err := r.Refused(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return len(refused) == 1 && refused[0].MessageID == "a" && refused[0].RoutingKey == "later" && strings.Contains(refused[0].Failure, "NO_ROUTE")
		})
		_, later := consume(t, b.URL(), "later")
		if d := rabbittest.Receive(t, later); d.MessageId != "a" {
			t.Errorf("got %+v", d)
		}
		awaitEmpty(t, db.DB)
	})
}

// A row that is no message waits as a refused one does, and holds up no other.
func TestARowThatIsNoMessage(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		install(t, db.DB)
		b := broker.Start(t, broker.Config{})
		queue, deliveries := consume(t, b.URL(), "invoices")
		rows := []string{`{"bad`, `[]`, `{"headers": 1}`, `{"message_id": "` + strings.Repeat("x", 300) + `"}`}
		for _, properties := range rows {
			_, err := db.ExecContext(t.Context(), "INSERT INTO watership_outbox (exchange, routing_key, properties, body) VALUES ('', $1, $2, 'x')", queue+strings.Repeat("y", 300), properties)
			if err != nil {
				t.Fatal(err)
			}
		}
		publish(t, db.DB, schemas.Envelope{RoutingKey: queue, Body: []byte("b")})
		r := startRelay(t, outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: b.URL()}})
		if d := rabbittest.Receive(t, deliveries); string(d.Body) != "b" {
			t.Errorf("got %s", d.Body)
		}
		rabbittest.Eventually(t, "the other rows are refused", func() bool {
			refused, err := r.Refused(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return len(refused) == len(rows) && strings.Contains(refused[0].Failure, "reading the properties of a message")
		})
		if n := count(t, db.DB, "watership_outbox"); n != len(rows) {
			t.Errorf("the outbox has %d rows", n)
		}
	})
}

// A property of another type is not left out of the message.
func TestAPropertyOfAnotherType(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		install(t, db.DB)
		b := broker.Start(t, broker.Config{})
		queue, deliveries := consume(t, b.URL(), "invoices")
		for _, properties := range []string{`[{"key":"message_id","int32":5}]`, `[{"key":"priority","int32":5}]`, `[{"key":"headers","string":"a"}]`} {
			execute(t, db.DB, "INSERT INTO watership_outbox (exchange, routing_key, properties, body) VALUES ('', $1, $2, $3)", queue, properties, []byte("x"))
		}
		publish(t, db.DB, schemas.Envelope{RoutingKey: queue, Body: []byte("b")})
		r := startRelay(t, outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: b.URL()}})
		if d := rabbittest.Receive(t, deliveries); string(d.Body) != "b" {
			t.Errorf("got %s with properties %+v", d.Body, d)
		}
		rabbittest.Eventually(t, "the other rows are refused", func() bool {
			refused, err := r.Refused(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return len(refused) == 3 && strings.Contains(refused[0].Failure, "message_id is of type int32, expected string")
		})
	})
}

func TestFull(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		install(t, db.DB)
		publish(t, db.DB, schemas.Envelope{RoutingKey: "q"})
		next := func(id int) {
			t.Helper()
			statement := "ALTER TABLE watership_outbox ALTER COLUMN id RESTART WITH %d"
			if db.Driver == "sqlite" {
				statement, id = "UPDATE sqlite_sequence SET seq = %d WHERE name = 'watership_outbox'", id-1
			}
			if _, err := db.ExecContext(t.Context(), fmt.Sprintf(statement, id)); err != nil {
				t.Fatal(err)
			}
		}
		full := func(id int, want bool) {
			t.Helper()
			next(id)
			err := database.InTx(t.Context(), db.DB, func(tx *sql.Tx) error { return outbox.Publish(t.Context(), tx, schemas.Envelope{RoutingKey: "q"}) })
			if errors.Is(err, outbox.ErrFull) != want || !want && err != nil {
				t.Errorf("message %d after the first: %v", id, err)
			}
		}
		full(outbox.Limit+1, true)
		full(3*outbox.Limit+1, true) // refused ones use up ids
		full(outbox.Limit, false)
		if n := count(t, db.DB, "watership_outbox"); n != 2 {
			t.Errorf("the outbox has %d messages", n)
		}
	})
}

func TestHeadersThatCannotBePublished(t *testing.T) {
	db := databasetest.SQLite(t)
	install(t, db.DB)
	err := database.InTx(t.Context(), db.DB, func(tx *sql.Tx) error {
		return outbox.Publish(t.Context(), tx, schemas.Envelope{RoutingKey: "q", Headers: amqp.Table{"a": struct{}{}}})
	})
	if err == nil || !strings.Contains(err.Error(), "headers cannot be published") {
		t.Errorf("got %v", err)
	}
}

func TestRelayConfig(t *testing.T) {
	if _, err := outbox.NewRelay(outbox.RelayConfig{}); err == nil {
		t.Error("a relay without a database")
	}
	r, err := outbox.NewRelay(outbox.RelayConfig{DB: &sql.DB{}, Connection: rabbitmq.Connection{URL: "http://localhost"}})
	if err == nil {
		err = r.Run(t.Context())
	}
	if err == nil || bytes.Contains([]byte(err.Error()), []byte("waits")) {
		t.Errorf("a relay to an HTTP server: %v", err)
	}
}

// A queue that does not confirm holds up no other. Its messages wait with the reason, and arrive when it
// confirms again.
func TestAQueueThatDoesNotConfirm(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		install(t, db.DB)
		b := broker.Start(t, broker.Config{})
		slow, late := consume(t, b.URL(), "slow")
		fast, deliveries := consume(t, b.URL(), "fast")
		confirm := b.Inject(broker.Fault{Match: func(r broker.Request) bool { return r.RoutingKey == slow }, Do: broker.DelayConfirm(time.Hour)})
		log := &rabbittest.Log{}
		r := startRelay(t, outbox.RelayConfig{DB: db.DB, Connection: rabbitmq.Connection{URL: b.URL()}, ConfirmTimeout: 3 * time.Second, Logger: log.Logger()})
		for n := range 50 {
			publish(t, db.DB, schemas.Envelope{RoutingKey: slow, Body: []byte(strconv.Itoa(n))}, schemas.Envelope{RoutingKey: fast, Body: []byte(strconv.Itoa(n))})
		}
		seen := map[string]bool{}
		for len(seen) < 50 {
			seen[string(rabbittest.Receive(t, deliveries).Body)] = true
		}
		rabbittest.Eventually(t, "only those of the slow queue wait, with the reason", func() bool {
			refused, err := r.Refused(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return len(refused) == 50 && count(t, db.DB, "watership_outbox") == 50 && refused[0].RoutingKey == slow && strings.Contains(refused[49].Failure, "not confirmed")
		})
		if n := log.Count("are not confirmed; they wait"); n != 1 {
			t.Errorf("it is logged %d times:\n%s", n, log)
		}
		confirm()
		awaitEmpty(t, db.DB)
		clear(seen)
		for len(seen) < 50 {
			seen[string(rabbittest.Receive(t, late).Body)] = true
		}
	})
}

package projection_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/watershipmq/watership/eventstore/kql"
	"github.com/watershipmq/watership/internal/database/databasetest"
	"github.com/watershipmq/watership/internal/rabbit/rabbittest"
	"github.com/watershipmq/watership/internal/wire"
	"github.com/watershipmq/watership/projection"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// An error that quotes a body with bytes that PostgreSQL refuses in texts is recorded.
func TestAnErrorThatIsNoText(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 20)
		cfg := o.config(db.DB)
		cfg.Park, cfg.Policy = true, fast
		quoting := errors.New("cannot parse \"a\x00b\xff\" " + strings.Repeat("…", 10_000))
		cfg.Handle, _ = failing("shop-5", 1000, retry.Permanent(quoting))
		p := newProjection(t, cfg)
		start(t, p.Run)
		eventually(t, func() error {
			if g := generations(t, p); len(g) == 0 || g[0].Events != 19 || g[0].Parked != 1 {
				return fmt.Errorf("the generations are %+v", g)
			}
			return nil
		})
		parked, err := p.Parked(t.Context())
		if err != nil || len(parked) != 1 || !strings.HasPrefix(parked[0].Failure, "cannot parse \"a\uFFFDb\uFFFD\" …") || len(parked[0].Failure) > 9<<10 {
			t.Errorf("parked are %+v, %v", parked, err)
		}
	})
}

// Without Park, the status has the same text.
func TestTheStatusOfAnErrorThatIsNoText(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 1)
		cfg := o.config(db.DB)
		cfg.Handle, _ = failing("shop-1", 1000, retry.Permanent(errors.New("a\x00b")))
		p := newProjection(t, cfg)
		if err := p.Run(t.Context()); err == nil {
			t.Error("it ended without an error")
		}
		if g := generations(t, p); len(g) != 1 || g[0].Failure != "a\uFFFDb" {
			t.Errorf("the generations are %+v", g)
		}
	})
}

func TestAPanicIsAFailure(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 20)
		cfg := o.config(db.DB)
		cfg.Policy = fast
		cfg.Handle = func(ctx context.Context, tx *sql.Tx, tables projection.Tables, event schemas.Event) error {
			if event.EventID == "shop-5" {
				panic("no such product")
			}
			return addOrder(ctx, tx, tables, event)
		}
		p := newProjection(t, cfg)
		var failed *projection.EventError
		if err := p.Run(t.Context()); !errors.As(err, &failed) || failed.Event.EventID != "shop-5" || !strings.Contains(err.Error(), "no such product") {
			t.Fatalf("it ended with %v", err)
		}
		cfg.Park = true
		p = newProjection(t, cfg)
		start(t, p.Run)
		eventually(t, func() error {
			if g := generations(t, p); g[0].Events != 19 || g[0].Parked != 1 {
				return fmt.Errorf("the generations are %+v", g)
			}
			return nil
		})
	})
}

// hangsAt returns a handler that does not return from an event until the test ends.
func hangsAt(t *testing.T, id string) func(context.Context, *sql.Tx, projection.Tables, schemas.Event) error {
	return func(ctx context.Context, tx *sql.Tx, tables projection.Tables, event schemas.Event) error {
		if event.EventID == id {
			<-t.Context().Done()
			return errors.New("the test has ended")
		}
		return addOrder(ctx, tx, tables, event)
	}
}

// Another process takes over from one whose handler hangs.
func TestAHandlerThatHangs(t *testing.T) {
	t.Parallel()
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 20)
		cfg := o.config(db.DB)
		cfg.Timeout, cfg.Handle = 100*time.Millisecond, hangsAt(t, "shop-5")
		first := newProjection(t, cfg)
		stop := start(t, first.Run)
		eventually(t, func() error {
			if g := generations(t, first); len(g) == 0 || !strings.Contains(g[0].Failure, "it did not return") {
				return fmt.Errorf("the generations are %+v", g)
			}
			return nil
		})
		start(t, newProjection(t, o.config(db.DB)).Run)
		o.await(t, db.DB)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// The attempts of several processes count, so that an event at which all hang is given up.
func TestAnEventAtWhichHandlersHang(t *testing.T) {
	t.Parallel()
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 20)
		cfg := o.config(db.DB)
		cfg.Timeout, cfg.Handle, cfg.Park = time.Second, hangsAt(t, "shop-5"), true
		cfg.Policy = &retry.Policy{First: time.Millisecond, Attempts: 2}
		for range 2 {
			start(t, newProjection(t, cfg).Run)
		}
		p := newProjection(t, cfg)
		eventually(t, func() error {
			if g := generations(t, p); len(g) == 0 || g[0].Events != 19 || g[0].Parked != 1 {
				return fmt.Errorf("the generations are %+v", g)
			}
			return nil
		})
	})
}

// The end of a process does not wait for a handler that hangs.
func TestTheEndOfAHandlerThatHangs(t *testing.T) {
	t.Parallel()
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 5)
		cfg := o.config(db.DB)
		hangs := make(chan struct{}, 10)
		cfg.Handle = func(context.Context, *sql.Tx, projection.Tables, schemas.Event) error {
			hangs <- struct{}{}
			<-t.Context().Done()
			return nil
		}
		stop := start(t, newProjection(t, cfg).Run)
		<-hangs
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Events that are stored without their bodies get them, or fail.
func TestBodiesOfHandledEvents(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		o.add(t, 3)
		var documents []schemas.Document
		for n, in := range map[int64]schemas.BodyPlace{1: schemas.BodyInPublished, 2: schemas.BodyInPublished, 9: schemas.BodyInPublished, 10: schemas.BodyInUnstorable} {
			e := schemas.Event{Action: schemas.Handled, Sequence: 100 + n, Source: source, VHost: "/"}
			e.Time = time.UnixMicro(n).UTC()
			e.Envelope = schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Body: fmt.Appendf(nil, `{"Customer":"c%d","Amount":%d}`, n, n)}
			e.Fingerprint = e.Envelope.Fingerprint()
			e.EventID, e.BodyIn, e.BodySize, e.Envelope.Body = fmt.Sprintf("handled-%d", n), in, len(e.Envelope.Body), nil
			documents = append(documents, schemas.DocumentFormat{}.Document(e))
		}
		if _, err := o.store.Create(t.Context(), documents); err != nil {
			t.Fatal(err)
		}
		cfg := o.config(db.DB)
		cfg.Reader.Query, cfg.Park, cfg.Policy = kql.FieldIs("event.action", "handled"), true, fast
		p := newProjection(t, cfg)
		start(t, p.Run)
		eventually(t, func() error {
			if g := generations(t, p); len(g) == 0 || g[0].Events != 2 || g[0].Parked != 2 {
				return fmt.Errorf("the generations are %+v", g)
			}
			return nil
		})
		if n := scalar[int](t, db.DB, "SELECT SUM(amount) FROM customer_totals"); n != 3 {
			t.Errorf("the amount is %d", n)
		}
		parked, err := p.Parked(t.Context())
		if err != nil || len(parked) != 2 || !strings.Contains(parked[0].Failure, "no other event of its message has it") || !strings.Contains(parked[1].Failure, "too large for the store") {
			t.Errorf("parked are %+v, %v", parked, err)
		}
		cfg.WithoutBodies, cfg.Version = true, 2
		cfg.Handle = func(ctx context.Context, tx *sql.Tx, tables projection.Tables, event schemas.Event) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO "+tables.Name("customer_log")+" VALUES ($1)", event.EventID)
			return err
		}
		if g, err := newProjection(t, cfg).Rebuild(t.Context()); err != nil || g.Events != 4 {
			t.Errorf("the rebuild without bodies returned %+v, %v", g, err)
		}
	})
}

// The body of a new event may be stored after the event: the event waits for it.
func TestABodyThatComesLater(t *testing.T) {
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o := newOrders(t)
		now := time.Now().UnixMicro()
		published := schemas.Event{Action: schemas.Published, Sequence: now + 3, Source: source, VHost: "/"}
		published.Time = time.UnixMicro(now).UTC()
		published.Envelope = schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Body: []byte(`{"Customer":"c2","Amount":2}`)}
		published.EventID, published.Fingerprint = "published", published.Envelope.Fingerprint()
		handled := published
		handled.Action, handled.Sequence, handled.EventID = schemas.Handled, now+2, "handled"
		handled.BodyIn, handled.BodySize, handled.Envelope.Body = schemas.BodyInPublished, len(published.Envelope.Body), nil
		before := published
		before.Action, before.Sequence, before.EventID = schemas.Poisoned, now+1, "before"
		before.Envelope.Body = []byte(`{"Customer":"c1","Amount":1}`)
		before.Fingerprint = before.Envelope.Fingerprint()
		store := func(events ...schemas.Event) {
			for _, e := range events {
				if _, err := o.store.Create(t.Context(), []schemas.Document{schemas.DocumentFormat{}.Document(e)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		store(before, handled)
		cfg := o.config(db.DB)
		cfg.Reader.Query, cfg.Park, cfg.Policy = kql.Or{kql.FieldIs("event.action", "handled"), kql.FieldIs("event.action", "poisoned")}, true, fast
		p := newProjection(t, cfg)
		start(t, p.Run)
		eventually(t, func() error {
			if g := generations(t, p); len(g) == 0 || g[0].Events != 1 || !strings.Contains(g[0].Failure, "the body of event handled is not stored yet") {
				return fmt.Errorf("the generations are %+v", g)
			}
			return nil
		})
		store(published)
		eventually(t, func() error {
			if g := generations(t, p); g[0].Events != 2 || g[0].Parked != 0 {
				return fmt.Errorf("the generations are %+v", g)
			}
			return nil
		})
		if n := scalar[int](t, db.DB, "SELECT SUM(amount) FROM customer_totals"); n != 3 {
			t.Errorf("the amount is %d", n)
		}
	})
}

// A body that is too large for the store is in a queue of RabbitMQ.
func TestBodiesTooLargeForTheStore(t *testing.T) {
	b := rabbittest.Newest(t).VHost(t)
	e := schemas.Event{Action: schemas.Published, Sequence: 1, Source: source, VHost: "/"}
	e.Time = time.UnixMicro(1).UTC()
	e.Envelope = schemas.Envelope{Exchange: "shop", RoutingKey: "order.created", Body: []byte(`{"Customer":"c1","Amount":7}`)}
	e.EventID, e.Fingerprint, e.Queue = source+"-1", e.Envelope.Fingerprint(), "orders"
	ch, queue := b.Channel(t), (schemas.Topology{}).Unstorable()
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := ch.Publish("", queue, false, false, wire.DefaultFrameMax.Wrap(e.Envelope, e.State)); err != nil {
		t.Fatal(err)
	}
	databasetest.Run(t, func(t *testing.T, db databasetest.Database) {
		o, stored := newOrders(t), e
		stored.BodyIn, stored.BodySize, stored.Envelope.Body = schemas.BodyInUnstorable, len(e.Envelope.Body), nil
		if _, err := o.store.Create(t.Context(), []schemas.Document{schemas.DocumentFormat{}.Document(stored)}); err != nil {
			t.Fatal(err)
		}
		cfg := o.config(db.DB)
		cfg.URL = b.URL
		if g, err := newProjection(t, cfg).Rebuild(t.Context()); err != nil || g.Events != 1 {
			t.Fatalf("rebuilt %+v, %v", g, err)
		}
		if n := scalar[int](t, db.DB, "SELECT SUM(amount) FROM customer_totals"); n != 7 {
			t.Errorf("the amount is %d", n)
		}
	})
}

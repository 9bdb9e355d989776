// Package projection keeps tables that are computed from the events of a source, such as
// the total of each customer's orders:
//
//	totals, err := projection.New(projection.Config{
//		Name: "customer_totals", Version: 1, Tables: []string{"customer_totals"},
//		Create: createTable, Handle: addOrder,
//		DB: db, Reader: subscription.Reader{Store: store, Source: "shop", Query: query},
//	})
//	if err != nil {
//		return err
//	}
//	return totals.Run(ctx) // in another process: totals.Rebuild(ctx)
//
// The position up to which events were handled is stored in the same transaction as the
// rows that the handler writes, in SQLite or PostgreSQL. So each event has its effect on the
// tables exactly once, whatever ends or is cut off. Effects outside of the database, such as
// messages, belong into the transaction as well: see package outbox.
//
// Rebuild computes the tables again from the first event, next to those that are read, and
// switches over to them. The former ones are kept until Drop, and Rollback switches back.
package projection

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/internal/handler/usercode"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
	"github.com/watershipmq/watership/subscription"
)

// Config describes a projection. Name, Version, Tables, Create, Handle, DB and Reader are
// required.
type Config struct {
	Name string // lower-case letters, digits and _; at most 40

	// Version is the version of Create, Handle and the reader's query, at least 1. Tables of
	// one version are not changed by a program of another: Rebuild makes the tables of a new
	// version.
	Version int

	// Tables are the names by which programs read the tables. They are views of the tables
	// of one generation, which have other names: see Tables.
	Tables []string

	// Create creates the tables of a generation, with their indexes.
	Create func(ctx context.Context, tx *sql.Tx, tables Tables) error

	// Handle changes the tables for an event. It uses tx for every statement, and neither
	// commits nor rolls back. It is called again for the same event if the transaction
	// fails, so it must have no effects but those in tx. A panic counts as an error.
	Handle func(ctx context.Context, tx *sql.Tx, tables Tables, event schemas.Event) error

	// Upcast changes an event of a former version into one of the version that Handle knows, by its type,
	// stream or routing key, and returns others as they are. It is called before Handle, without effects, and the
	// store keeps the event as it was recorded. An error or a panic makes the event fail at once, without further
	// attempts. A change of Upcast is a new Version, as one of Handle is. nil: events stay as they are.
	Upcast func(event schemas.Event) (schemas.Event, error)

	// Timeout limits a call of Upcast and Handle, whose context ends then. A call that does not return is left
	// behind: its transaction is rolled back, the event counts as failed, and another process may
	// go on with it. Zero: 1 minute.
	Timeout time.Duration

	DB     *sql.DB             // SQLite, with a busy timeout, or PostgreSQL
	Reader subscription.Reader // its Query selects the events

	// WithoutBodies: Handle does without the bodies of events that are stored without one, such as
	// handled events. Otherwise they are looked up in other events of the message, and an event whose
	// body is not found fails: it may be past its retention, or too large for the store (URL).
	WithoutBodies bool

	// Connection is to RabbitMQ, whose queue of unstorable messages has the bodies that are too large for the
	// store. Without a URL an event with such a body fails.
	rabbitmq.Connection
	Topology schemas.Topology // as in the configuration of the indexer

	// Fingerprints are as in the configuration of the indexer. Bodies are found by them.
	Fingerprints schemas.Fingerprints

	// BatchEvents and BatchTime limit the events of one transaction: it is committed with
	// the last stored event at the latest. Zero: 500 and 1 s.
	BatchEvents int
	BatchTime   time.Duration

	// Policy decides about the next attempt at an event that fails, as for messages of a
	// queue. Nil: 8 attempts within 13 s. Errors while the database does not answer cost no
	// attempt.
	Policy *retry.Policy

	// Park records an event without further attempts (see Parked), and goes on with the
	// next one. False: Run and Rebuild end with an *EventError.
	Park bool

	// Lease is the time after which another process takes over from one that has died.
	// Zero: 10 s.
	Lease time.Duration

	Logger *slog.Logger // nil: slog.Default
}

const (
	defaultBatchEvents = 500
	defaultBatchTime   = time.Second
	defaultTimeout     = time.Minute
	timeoutGrace       = time.Second // for the return of a handler whose context has ended
	maxBatchBytes      = 4 << 20     // of bodies, unless one event has more
)

func defaultPolicy() *retry.Policy {
	return &retry.Policy{First: 100 * time.Millisecond, Attempts: 8, Cap: 10 * time.Second}
}

func (c Config) withDefaults() Config {
	c.BatchEvents = cmp.Or(c.BatchEvents, defaultBatchEvents)
	c.BatchTime = cmp.Or(c.BatchTime, defaultBatchTime)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.Lease = cmp.Or(c.Lease, database.DefaultLease)
	c.Policy = cmp.Or(c.Policy, defaultPolicy())
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = c.Logger.With("projection", c.Name)
	return c
}

// reads names the source and the query of the reader: events at a checkpoint of another source or query are not
// continued with.
func (c Config) reads() string {
	text := c.Reader.Source
	if c.Reader.Query != nil {
		text += "\n" + c.Reader.Query.String()
	}
	return text
}

func (c Config) validate() error {
	name := regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)
	var errs []error
	for _, text := range append([]string{c.Name}, c.Tables...) {
		if !name.MatchString(text) {
			errs = append(errs, fmt.Errorf("%q is no name: expected lower-case letters, digits and _, at most 40", text))
		}
	}
	if len(c.Tables) == 0 {
		errs = append(errs, errors.New("no Tables: expected the names of the tables that Create creates"))
	}
	if c.Version < 1 {
		errs = append(errs, fmt.Errorf("the Version is %d: expected 1 or more", c.Version))
	}
	if c.Create == nil || c.Handle == nil || c.DB == nil || c.Reader.Store == nil || c.Reader.Source == "" {
		errs = append(errs, errors.New("one of Create, Handle, DB, Reader.Store and Reader.Source is missing: all are required"))
	}
	if c.BatchEvents < 0 || c.BatchTime < 0 || c.Timeout < 0 || c.Lease < 0 {
		errs = append(errs, errors.New("one of BatchEvents, BatchTime, Timeout and Lease is negative: expected 0 or more"))
	}
	if c.Policy != nil {
		errs = append(errs, c.Policy.Validate())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("projection %q: %w", c.Name, err)
	}
	return nil
}

// Projection keeps the tables of a Config.
type Projection struct {
	cfg Config

	mu      sync.Mutex       // guards the field below
	dialect database.Dialect // set by prepare
}

// New checks the configuration. It does not connect to the database.
func New(cfg Config) (*Projection, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Projection{cfg: cfg.withDefaults()}, nil
}

// connection is a projection whose database has the tables of checkpoints.
type connection struct {
	cfg     Config
	dialect database.Dialect
	calls   *usercode.Goroutines // of Handle; a call that never returns stays in one
}

// connect asks for the dialect of the database and creates the tables of checkpoints, once.
func (p *Projection) connect(ctx context.Context) (*connection, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &connection{cfg: p.cfg, dialect: p.dialect, calls: &usercode.Goroutines{}}
	if c.dialect.Name != "" {
		return c, nil
	}
	err := c.insist(ctx, func() (err error) {
		if c.dialect, err = database.DialectOf(ctx, p.cfg.DB); err != nil {
			return err
		}
		if err := database.Create(ctx, p.cfg.DB, "watership_projection_parked", schema()...); err != nil {
			return err
		}
		return database.AddColumns(ctx, p.cfg.DB, "watership_projection", addedColumns()...)
	})
	if err != nil {
		return nil, fmt.Errorf("projection %s: preparing the database: %w", p.cfg.Name, err)
	}
	p.dialect = c.dialect
	return c, nil
}

// ErrSuperseded: a program with a higher Config.Version has made the tables.
var ErrSuperseded = errors.New("the tables were made by a later version of the projection")

// EventError is the reason why a projection does not get past an event.
type EventError struct {
	Projection string
	Event      schemas.Event
	Err        error
}

func (e *EventError) Error() string {
	return fmt.Sprintf("projection %s: event %s with sequence %d: %v", e.Projection, e.Event.EventID, e.Event.Sequence, e.Err)
}

func (e *EventError) Unwrap() error { return e.Err }

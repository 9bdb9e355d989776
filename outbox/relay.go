package outbox

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/schemas"
)

// RelayConfig describes a Relay. DB and URL are required.
type RelayConfig struct {
	DB  *sql.DB
	URL string // amqp:// or amqps://
	TLS *tls.Config

	// Nodes are further nodes of the broker's cluster as host:port, to which the rest of URL
	// applies. Each attempt to connect tries all in random order.
	Nodes []string

	// Interval is the time between two looks for messages while none exists. Zero: 100 ms.
	Interval time.Duration

	// Lease is the time after which another process takes over from one that has died.
	// Zero: 10 s.
	Lease time.Duration

	Logger *slog.Logger // nil: none
}

const (
	defaultInterval = 100 * time.Millisecond
	pageMessages    = 500     // read at once
	pageBytes       = 4 << 20 // of bodies; the last message may exceed it
)

// Relay publishes the messages of the outbox of a database.
type Relay struct{ cfg RelayConfig }

// NewRelay returns a relay. It connects in Run.
func NewRelay(cfg RelayConfig) (*Relay, error) {
	if cfg.DB == nil || cfg.URL == "" {
		return nil, errors.New("a relay needs DB and URL")
	}
	cfg.Interval = cmp.Or(cfg.Interval, defaultInterval)
	cfg.Lease = cmp.Or(cfg.Lease, database.DefaultLease)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Relay{cfg}, nil
}

// Run publishes messages until ctx ends, and returns nil then. One process at a time does;
// others wait. It waits while the database or the broker is unavailable. The messages are
// published in the order of Publish, many unconfirmed at a time, and published again after
// a lost connection. A message that the broker returns as unroutable, or refuses, does not
// hold up the others, and neither does a row that is no message: it stays in the table with the
// reason, and is tried again after growing pauses up to an hour.
func (r *Relay) Run(ctx context.Context) error {
	connection, err := rabbit.Open(rabbit.Config{URL: r.cfg.URL, Nodes: r.cfg.Nodes, TLS: r.cfg.TLS, Name: "watership outbox", Logger: r.cfg.Logger})
	if err != nil {
		return err
	}
	publisher := rabbit.NewPublisher(connection, rabbit.PublisherConfig{})
	err = r.run(ctx, publisher)
	return errors.Join(err, publisher.Close(), connection.Close())
}

func (r *Relay) run(ctx context.Context, publisher *rabbit.Publisher) error {
	pauses := backoff.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}
	for failures := 0; ; {
		progressed, err := r.hold(ctx, publisher)
		if ctx.Err() != nil {
			return nil
		}
		if progressed {
			failures = 0
		}
		failures++
		if errors.Is(err, rabbit.ErrClosed) {
			return err
		}
		r.cfg.Logger.Warn("the outbox waits", "error", err)
		if pauses.Wait(ctx, failures, 0) != nil {
			return nil
		}
	}
}

// hold relays messages while this process has the lease.
func (r *Relay) hold(ctx context.Context, publisher *rabbit.Publisher) (progressed bool, err error) {
	dialect, err := database.DialectOf(ctx, r.cfg.DB)
	if err != nil {
		return false, err
	}
	if err := Install(ctx, r.cfg.DB); err != nil {
		return false, err
	}
	lease := &database.Lease{DB: r.cfg.DB, Dialect: dialect, Name: "outbox", Duration: r.cfg.Lease}
	for held := false; !held; {
		if held, err = lease.TryAcquire(ctx); err == nil && !held {
			err = r.pause(ctx)
		}
		if err != nil {
			return false, err
		}
	}
	defer lease.Release(ctx)
	session := session{Relay: r, lease: lease, publisher: publisher, dialect: dialect}
	for {
		n, err := session.relay(ctx)
		if err == nil && n == 0 {
			err = r.pause(ctx)
		}
		if err != nil {
			return progressed, err
		}
		progressed = true
	}
}

func (r *Relay) pause(ctx context.Context) error {
	return backoff.Backoff{}.Wait(ctx, 1, r.cfg.Interval)
}

// session is a relay that holds the lease.
type session struct {
	*Relay
	lease     *database.Lease
	publisher *rabbit.Publisher
	dialect   database.Dialect
}

// row is a message in the table.
type row struct {
	id       int64
	attempts int
	envelope schemas.Envelope
	failure  error // of a row that is no message, as another program may have written it
}

// relay publishes some messages, and returns their number.
func (s *session) relay(ctx context.Context) (int, error) {
	rows, err := s.read(ctx, "attempts = 0 ORDER BY id")
	if err == nil && len(rows) < pageMessages {
		var again []row
		again, err = s.read(ctx, "attempts > 0 AND due <= "+s.dialect.Now+" ORDER BY due")
		rows = append(rows, again...)
	}
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	refused, unknown := s.publish(ctx, rows)
	var confirmed []int64
	for _, row := range rows {
		if refused[row.id] == nil && unknown[row.id] == nil {
			confirmed = append(confirmed, row.id)
		}
	}
	if err := s.record(ctx, rows, confirmed, refused); err != nil {
		return 0, err
	}
	for _, err := range unknown {
		return 0, err
	}
	return len(rows), nil
}

// read returns the first messages that fulfil a condition.
func (s *session) read(ctx context.Context, condition string) (page []row, err error) {
	rows, err := s.cfg.DB.QueryContext(ctx, fmt.Sprintf(`SELECT id, attempts, exchange, routing_key, properties, body
		FROM watership_outbox WHERE %s LIMIT %d`, condition, pageMessages))
	if err != nil {
		return nil, fmt.Errorf("reading the outbox: %w", err)
	}
	defer rows.Close()
	for bytes := 0; bytes < pageBytes && rows.Next(); {
		var next row
		var properties string
		e := &next.envelope
		if err := rows.Scan(&next.id, &next.attempts, &e.Exchange, &e.RoutingKey, &properties, &e.Body); err != nil {
			return nil, fmt.Errorf("reading the outbox: %w", err)
		}
		next.failure = decodeProperties(e, properties)
		bytes += len(e.Body)
		page = append(page, next)
	}
	return page, rows.Err()
}

// publish sends all messages, then waits for their confirms. It returns the errors of the
// messages that the broker refused, of rows without a valid message, and of messages that may have been published.
func (s *session) publish(ctx context.Context, rows []row) (refused, unknown map[int64]error) {
	refused, unknown = map[int64]error{}, map[int64]error{}
	waits := make(map[int64]func() error, len(rows))
	for _, row := range rows {
		if row.failure != nil {
			refused[row.id] = row.failure
			continue
		}
		e := row.envelope
		pending, err := s.publisher.Send(ctx, rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()})
		waits[row.id] = func() error {
			if err != nil {
				return err
			}
			return pending.Wait(ctx)
		}
	}
	for id, wait := range waits {
		if err := wait(); err != nil && isRefusal(err) {
			refused[id] = err
		} else if err != nil {
			unknown[id] = err
		}
	}
	return refused, unknown
}

// isRefusal reports whether an error concerns one message only.
func isRefusal(err error) bool {
	var unroutable *rabbit.UnroutableError
	var nacked *rabbit.NackedError
	var refused *rabbit.RefusedError
	return errors.As(err, &unroutable) || errors.As(err, &nacked) || errors.As(err, &refused)
}

// record deletes the confirmed messages, and saves why others were refused. Another process
// that has the lease by now publishes them again.
func (s *session) record(ctx context.Context, rows []row, confirmed []int64, refused map[int64]error) error {
	again := backoff.Backoff{Min: time.Second, Max: time.Hour}
	ctx = context.WithoutCancel(ctx) // confirmed messages would be published again
	return database.InTx(ctx, s.cfg.DB, func(tx *sql.Tx) error {
		if err := s.lease.Fence(ctx, tx); err != nil {
			return err
		}
		for _, id := range confirmed {
			if _, err := tx.ExecContext(ctx, "DELETE FROM watership_outbox WHERE id = $1", id); err != nil {
				return fmt.Errorf("deleting message %d of the outbox: %w", id, err)
			}
		}
		for _, row := range rows {
			failure := refused[row.id]
			if failure == nil {
				continue
			}
			s.cfg.Logger.Warn("a message of the outbox was refused", "row", row.id, "message", row.envelope.Properties.MessageID, "attempt", row.attempts+1, "error", failure)
			_, err := tx.ExecContext(ctx, "UPDATE watership_outbox SET attempts = attempts + 1, failure = $1, due = "+s.dialect.Now+" + $2 WHERE id = $3",
				database.Text(failure), again.Pause(row.attempts+1).Microseconds(), row.id)
			if err != nil {
				return fmt.Errorf("saving the failure of message %d of the outbox: %w", row.id, err)
			}
		}
		return nil
	})
}

// Waiting is a message in the outbox that the broker refused, or a row that is no message, which has
// no MessageID.
type Waiting struct {
	MessageID, Exchange, RoutingKey string
	Attempts                        int
	Failure                         string
}

// Refused returns the messages that the broker refused, the oldest first, at most 1,000.
func (r *Relay) Refused(ctx context.Context) (refused []Waiting, err error) {
	if err := Install(ctx, r.cfg.DB); err != nil {
		return nil, err
	}
	rows, err := r.cfg.DB.QueryContext(ctx, `SELECT exchange, routing_key, properties, attempts, failure
		FROM watership_outbox WHERE attempts > 0 ORDER BY id LIMIT 1000`)
	if err != nil {
		return nil, fmt.Errorf("reading the outbox: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var w Waiting
		var properties string
		var e schemas.Envelope
		if err := rows.Scan(&w.Exchange, &w.RoutingKey, &properties, &w.Attempts, &w.Failure); err != nil {
			return nil, fmt.Errorf("reading the outbox: %w", err)
		}
		_ = decodeProperties(&e, properties) // Failure names a row that is no message
		w.MessageID = e.Properties.MessageID
		refused = append(refused, w)
	}
	return refused, rows.Err()
}

package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/internal/rabbit"
	"github.com/watershipmq/watership/rabbitmq"
	"github.com/watershipmq/watership/schemas"
)

// RelayConfig describes a Relay. DB and URL are required.
type RelayConfig struct {
	DB *sql.DB

	rabbitmq.Connection

	// Interval is the time between two looks for messages while none exists. Zero: 100 ms.
	Interval time.Duration

	// Lease is the time after which another process takes over from one that has died.
	// Zero: 10 s.
	Lease time.Duration

	// ConfirmTimeout is the time within which the broker has to confirm a message. A quorum queue
	// without a majority does not, for example. Zero: 10 s.
	ConfirmTimeout time.Duration

	Logger *slog.Logger // nil: slog.Default
}

const (
	defaultInterval       = 100 * time.Millisecond
	defaultConfirmTimeout = 10 * time.Second
	pageMessages          = 500     // read at once
	pageBytes             = 4 << 20 // of bodies; the last message may exceed it
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
	cfg.ConfirmTimeout = cmp.Or(cfg.ConfirmTimeout, defaultConfirmTimeout)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Relay{cfg}, nil
}

// Run publishes messages until ctx ends, and returns nil then. One process at a time does;
// others wait. It waits while the database or the broker is unavailable. The messages are
// published in the order of Publish, many unconfirmed at a time, and published again after
// a lost connection. A message that the broker returns as unroutable, refuses or does not confirm
// in time does not hold up the others, and neither does a row that is no message: it stays in the table
// with the reason, and is tried again after growing pauses up to an hour. If a message was not confirmed, those
// with the same exchange and routing key wait for up to a minute, and one of them is tried first.
func (r *Relay) Run(ctx context.Context) error {
	first := &sender{relay: r, purpose: "outbox"}
	if _, err := first.publisher(); err != nil {
		return err
	}
	return errors.Join(r.run(ctx, first), first.close())
}

func (r *Relay) run(ctx context.Context, first *sender) error {
	pauses := backoff.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}
	for failures := 0; ; {
		progressed, err := r.hold(ctx, first)
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
func (r *Relay) hold(ctx context.Context, first *sender) (progressed bool, err error) {
	dialect, err := database.DialectOf(ctx, r.cfg.DB)
	if err != nil {
		return false, err
	}
	if err := Install(ctx, r.cfg.DB); err != nil {
		return false, err
	}
	held, lose := context.WithCancelCause(ctx)
	defer lose(nil)
	lease := &database.Lease{DB: r.cfg.DB, Dialect: dialect, Name: "outbox", Duration: r.cfg.Lease, Lost: lose}
	for isHeld := false; !isHeld; {
		if isHeld, err = lease.TryAcquire(ctx); err == nil && !isHeld {
			err = r.pause(ctx)
		}
		if err != nil {
			return false, err
		}
	}
	defer lease.Release(ctx)
	session := &session{Relay: r, lease: lease, dialect: dialect, slow: &slow{waits: map[destination]wait{}}}
	var repeats sync.WaitGroup
	repeats.Go(func() { session.repeat(held, lose) })
	defer repeats.Wait()
	defer lose(nil)
	for {
		n, err := session.relay(held, first)
		if err == nil && n == 0 {
			err = r.pause(held)
		}
		switch {
		case errors.Is(context.Cause(held), database.ErrLeaseLost):
			return progressed, context.Cause(held)
		case err != nil:
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
	lease   *database.Lease
	dialect database.Dialect
	slow    *slow

	beginning beginning // of the goroutine that publishes new messages
}

// row is a message in the table.
type row struct {
	id       int64
	attempts int
	envelope schemas.Envelope
	failure  error // of a row that is no message, as another program may have written it
}

// relay publishes some messages that were not published before, and returns their number.
func (s *session) relay(ctx context.Context, by *sender) (int, error) {
	if err := s.settle(ctx); err != nil {
		return 0, err
	}
	rows, err := s.read(ctx, s.beginning.condition())
	if err != nil {
		return 0, err
	}
	if s.beginning.pass(rows); len(rows) == 0 {
		return 0, nil
	}
	return len(rows), s.send(ctx, by, rows, func(d destination) bool { return !s.slow.has(d) })
}

// send publishes the rows whose destinations may be sent to, and saves what became of all of them. If some
// were not confirmed, the next ones have another connection: RabbitMQ drops what waits on this one.
func (s *session) send(ctx context.Context, by *sender, rows []row, may func(destination) bool) error {
	if err := s.lease.Check(ctx); err != nil {
		return err // another process sends them
	}
	publisher, err := by.publisher()
	if err != nil {
		return err
	}
	limited, stop := s.limit(ctx, by)
	page := s.publish(limited, publisher, rows, may)
	stop()
	if len(page.late) > 0 {
		defer by.close()
	}
	return errors.Join(s.record(ctx, page), page.unknown)
}

// limit returns a context that ends with errNotConfirmed after the time-out, at which the broker has to take
// messages: nothing is sent twice because of an outage or an alarm.
func (s *session) limit(ctx context.Context, by *sender) (limited context.Context, stop func()) {
	limited, end := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		for backoff.Sleep(limited, s.cfg.ConfirmTimeout) == nil {
			if by.takes() {
				end(errNotConfirmed)
			}
		}
	})
	return limited, func() {
		end(nil)
		watch.Wait()
	}
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

// page has the outcomes of rows. Those that may have been published stay as they are, for the next attempt.
type page struct {
	confirmed []row
	refused   []failedRow // by the broker, or they are not valid
	late      []row       // not confirmed in time
	unsent    []row       // since their destination is slow
	unknown   error       // of messages that may have been published
	answered  map[destination]bool
}

type failedRow struct {
	row
	failure error
}

// publish sends all messages that may be sent, then waits for their confirms.
func (s *session) publish(ctx context.Context, by *rabbit.Publisher, rows []row, may func(destination) bool) *page {
	page := &page{answered: map[destination]bool{}}
	type sentRow struct {
		row
		pending *rabbit.Pending
	}
	var sent []sentRow
	for _, row := range rows {
		switch {
		case row.failure != nil:
			page.refused = append(page.refused, failedRow{row, row.failure})
			continue
		case !may(row.destination()):
			page.unsent = append(page.unsent, row)
			continue
		}
		e := row.envelope
		pending, err := by.Send(ctx, rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()})
		if err != nil {
			page.add(row, err)
			continue
		}
		sent = append(sent, sentRow{row, pending})
	}
	for _, sent := range sent {
		err := sent.pending.Wait(ctx)
		page.add(sent.row, err)
		if err == nil || isRefusal(err) {
			page.answered[sent.destination()] = true
		}
	}
	return page
}

func (p *page) add(row row, err error) {
	switch {
	case err == nil:
		p.confirmed = append(p.confirmed, row)
	case isRefusal(err):
		p.refused = append(p.refused, failedRow{row, err})
	case errors.Is(err, errNotConfirmed):
		p.late = append(p.late, row)
	default:
		p.unknown = err
	}
}

// isRefusal reports whether an error concerns one message only.
func isRefusal(err error) bool {
	var unroutable *rabbit.UnroutableError
	var nacked *rabbit.NackedError
	var refused *rabbit.RefusedError
	return errors.As(err, &unroutable) || errors.As(err, &nacked) || errors.As(err, &refused)
}

// record deletes the confirmed messages, and saves why others wait. Another process that has the lease by now
// publishes them again.
func (s *session) record(ctx context.Context, page *page) error {
	refusals := backoff.Backoff{Min: time.Second, Max: time.Hour}
	for _, row := range page.refused {
		s.cfg.Logger.Warn("a message of the outbox was refused", "row", row.id, "message", row.envelope.Properties.MessageID, "attempt", row.attempts+1, "error", row.failure)
	}
	postponed, awake := s.note(page)
	ctx, stop := outlive(ctx) // confirmed messages would be published again
	defer stop()
	return database.InTx(ctx, s.cfg.DB, func(tx *sql.Tx) error {
		if err := s.lease.Fence(ctx, tx); err != nil {
			return err
		}
		for _, row := range page.confirmed {
			if _, err := tx.ExecContext(ctx, "DELETE FROM watership_outbox WHERE id = $1", row.id); err != nil {
				return fmt.Errorf("deleting message %d of the outbox: %w", row.id, err)
			}
		}
		for _, row := range page.refused {
			if err := s.keep(ctx, tx, row.row, row.failure, refusals.Pause(row.attempts+1)); err != nil {
				return err
			}
		}
		for _, row := range page.late {
			if err := s.keep(ctx, tx, row, s.notConfirmed(), 0); err != nil {
				return err
			}
		}
		for _, row := range page.unsent {
			if row.attempts > 0 {
				continue // it waits already
			}
			if err := s.keep(ctx, tx, row, s.notSent(), s.slow.left(row.destination())); err != nil {
				return err
			}
		}
		return s.move(ctx, tx, postponed, awake)
	})
}

// recordTimeout is how long the end of a relay waits for its last transaction.
const recordTimeout = 5 * time.Second

// outlive returns a context that ends some time after another one.
func outlive(ctx context.Context) (longer context.Context, stop func()) {
	longer, end := context.WithCancel(context.WithoutCancel(ctx))
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-longer.Done():
		case <-ctx.Done():
			_ = backoff.Sleep(longer, recordTimeout)
			end()
		}
	})
	return longer, func() {
		end()
		watch.Wait()
	}
}

// keep saves why a message waits, and for how long.
func (s *session) keep(ctx context.Context, tx *sql.Tx, row row, failure error, pause time.Duration) error {
	_, err := tx.ExecContext(ctx, "UPDATE watership_outbox SET attempts = attempts + 1, failure = $1, due = "+s.dialect.Now+" + $2 WHERE id = $3",
		database.Text(failure), pause.Microseconds(), row.id)
	if err != nil {
		return fmt.Errorf("saving the failure of message %d of the outbox: %w", row.id, err)
	}
	return nil
}

// Waiting is a message in the outbox that the broker refused or did not confirm, or that waits since another one to its
// destination was not confirmed, or a row that is no message, which has no MessageID.
type Waiting struct {
	MessageID, Exchange, RoutingKey string
	Attempts                        int
	Failure                         string
}

// Refused returns the messages that wait for another attempt, the oldest first, at most 1,000.
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

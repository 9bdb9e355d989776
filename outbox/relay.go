package outbox

import (
	"cmp"
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
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

	// ConfirmTimeout is the time within which the broker has to confirm a message. A quorum queue
	// without a majority does not, for example. Zero: 10 s.
	ConfirmTimeout time.Duration

	Logger *slog.Logger // nil: none
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
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Relay{cfg}, nil
}

// Run publishes messages until ctx ends, and returns nil then. One process at a time does;
// others wait. It waits while the database or the broker is unavailable. The messages are
// published in the order of Publish, many unconfirmed at a time, and published again after
// a lost connection. A message that the broker returns as unroutable, refuses or does not confirm
// in time does not hold up the others, and neither does a row that is no message: it stays in the table
// with the reason, and is tried again after growing pauses up to an hour, or up to a minute if it was not
// confirmed.
func (r *Relay) Run(ctx context.Context) error {
	first := &sender{relay: r, name: "watership outbox"}
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
	session := &session{Relay: r, lease: lease, dialect: dialect, slow: map[destination]bool{}}
	repeating, end := context.WithCancel(ctx)
	var repeats sync.WaitGroup
	repeats.Go(func() { session.repeat(repeating) })
	defer repeats.Wait()
	defer end()
	for {
		n, err := session.relay(ctx, first)
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
	lease   *database.Lease
	dialect database.Dialect

	mu   sync.Mutex // guards slow
	slow map[destination]bool
}

// destination is the place to which messages go. If it does not confirm, as far as is known, its messages are
// not sent with others: RabbitMQ stops reading a connection on which too much waits.
type destination struct{ exchange, key string }

func (r row) destination() destination {
	return destination{r.envelope.Exchange, r.envelope.RoutingKey}
}

func (s *session) isSlow(d destination) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.slow[d]
}

// note notes which destinations do not confirm, and which of the others of some rows do.
func (s *session) note(rows []row, late map[destination]bool, confirmed func(row) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, row := range rows {
		d := row.destination()
		switch {
		case late[d] && !s.slow[d]:
			s.cfg.Logger.Warn("messages of the outbox are not confirmed; they wait", "exchange", d.exchange, "routing_key", d.key, "timeout", s.cfg.ConfirmTimeout)
			s.slow[d] = true
		case !late[d] && confirmed(row):
			delete(s.slow, d)
		}
	}
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
	rows, err := s.read(ctx, "attempts = 0 ORDER BY id")
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return len(rows), s.send(ctx, by, rows, func(d destination) bool { return !s.isSlow(d) })
}

// send publishes the rows whose destinations may be sent to, and saves what became of all of them. If some
// were not confirmed, the next ones have another connection: RabbitMQ drops what waits on this one.
func (s *session) send(ctx context.Context, by *sender, rows []row, may func(destination) bool) error {
	publisher, err := by.publisher()
	if err != nil {
		return err
	}
	limited, stop := s.limit(ctx, by)
	failed, unknown := s.publish(limited, publisher, rows, may)
	stop()
	late := map[destination]bool{}
	for _, row := range rows {
		if errors.Is(unknown[row.id], errNotConfirmed) {
			failed[row.id], late[row.destination()] = s.notConfirmed(), true
			delete(unknown, row.id)
		}
	}
	s.note(rows, late, func(row row) bool { return failed[row.id] == nil && unknown[row.id] == nil })
	if len(late) > 0 {
		defer by.close()
	}
	var confirmed []int64
	for _, row := range rows {
		if failed[row.id] == nil && unknown[row.id] == nil {
			confirmed = append(confirmed, row.id)
		}
	}
	if err := s.record(ctx, rows, confirmed, failed); err != nil {
		return err
	}
	for _, err := range unknown {
		return err
	}
	return nil
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

// publish sends all messages that may be sent, then waits for their confirms. It returns the errors of the
// messages that failed: the broker refused them, their destination does not confirm, or they are not valid. It
// also returns the errors of messages that may have been published.
func (s *session) publish(ctx context.Context, by *rabbit.Publisher, rows []row, may func(destination) bool) (failed, unknown map[int64]error) {
	failed, unknown = map[int64]error{}, map[int64]error{}
	waits := make(map[int64]func() error, len(rows))
	for _, row := range rows {
		switch {
		case row.failure != nil:
			failed[row.id] = row.failure
			continue
		case !may(row.destination()):
			failed[row.id] = s.notConfirmed()
			continue
		}
		e := row.envelope
		pending, err := by.Send(ctx, rabbit.Message{Exchange: e.Exchange, RoutingKey: e.RoutingKey, Publishing: e.Publishing()})
		waits[row.id] = func() error {
			if err != nil {
				return err
			}
			return pending.Wait(ctx)
		}
	}
	for id, wait := range waits {
		if err := wait(); err != nil && isRefusal(err) {
			failed[id] = err
		} else if err != nil {
			unknown[id] = err
		}
	}
	return failed, unknown
}

var errNotConfirmed = errors.New("not confirmed in time")

func (s *session) notConfirmed() error {
	return fmt.Errorf("%w (%s): a queue that gets it may have no majority of its nodes", errNotConfirmed, s.cfg.ConfirmTimeout)
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
	refusals, delays := backoff.Backoff{Min: time.Second, Max: time.Hour}, backoff.Backoff{Min: time.Second, Max: time.Minute}
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
			pause := delays
			if !errors.Is(failure, errNotConfirmed) {
				pause = refusals
				s.cfg.Logger.Warn("a message of the outbox was refused", "row", row.id, "message", row.envelope.Properties.MessageID, "attempt", row.attempts+1, "error", failure)
			}
			_, err := tx.ExecContext(ctx, "UPDATE watership_outbox SET attempts = attempts + 1, failure = $1, due = "+s.dialect.Now+" + $2 WHERE id = $3",
				database.Text(failure), pause.Pause(row.attempts+1).Microseconds(), row.id)
			if err != nil {
				return fmt.Errorf("saving the failure of message %d of the outbox: %w", row.id, err)
			}
		}
		return nil
	})
}

// Waiting is a message in the outbox that the broker refused or did not confirm, or a row that is no message, which has
// no MessageID.
type Waiting struct {
	MessageID, Exchange, RoutingKey string
	Attempts                        int
	Failure                         string
}

// Refused returns the messages that the broker refused or did not confirm, the oldest first, at most 1,000.
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

// Package outbox publishes messages to RabbitMQ if, and only if, a transaction of a database
// commits, and handles each received message once. The messages wait in a table of the same
// SQLite or PostgreSQL database:
//
//	err := outbox.Publish(ctx, tx, schemas.Envelope{
//		Exchange: "shop", RoutingKey: "invoice.made", Body: invoice,
//	})
//	if err != nil {
//		return err // and roll back
//	}
//	return tx.Commit()
//
// A Relay publishes them, in order, and deletes each when the broker has confirmed it. So
// each is published at least once, always with the same message id. An Inbox makes the
// handler of a route run once for each message id, in a transaction to which the messages
// that it returns belong.
//
// Append is Publish for the events of a stream, such as those about one order: only at the version
// on which the caller has decided, and with Load to decide on.
package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/ThreeDotsLabs/watermill"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/schemas"
)

// Limit is the maximum of messages that wait in the table, so that a broker that is unavailable for
// long does not fill the disk.
const Limit = 1_000_000

// ErrFull: Limit messages wait already.
var ErrFull = errors.New("the outbox is full: its relay does not run, or RabbitMQ is unavailable")

// Install creates the tables of the outbox, of streams and of the inbox, unless they exist.
func Install(ctx context.Context, db *sql.DB) error {
	dialect, err := database.DialectOf(ctx, db)
	if err == nil {
		err = database.Create(ctx, db, "watership_inbox", schema(dialect)...)
	}
	if err == nil {
		err = database.Create(ctx, db, "watership_stream_event", streamSchema(dialect)...)
	}
	if err != nil {
		return fmt.Errorf("installing the outbox: %w", err)
	}
	return nil
}

func schema(dialect database.Dialect) []string {
	return []string{
		database.LeaseTable,
		`CREATE TABLE IF NOT EXISTS watership_outbox (
			id ` + dialect.Identity + `, exchange TEXT NOT NULL, routing_key TEXT NOT NULL,
			properties TEXT NOT NULL, body ` + dialect.Blob + ` NOT NULL, attempts BIGINT NOT NULL DEFAULT 0,
			due BIGINT NOT NULL DEFAULT 0, failure TEXT NOT NULL DEFAULT '')`,
		`CREATE INDEX IF NOT EXISTS watership_outbox_new ON watership_outbox (id) WHERE attempts = 0`,
		`CREATE INDEX IF NOT EXISTS watership_outbox_due ON watership_outbox (due) WHERE attempts > 0`,
		// Keys of PostgreSQL are short. RabbitMQ takes names of up to 255 bytes.
		`CREATE INDEX IF NOT EXISTS watership_outbox_destination ON watership_outbox (exchange, routing_key) WHERE ` + waits,
		`CREATE TABLE IF NOT EXISTS watership_inbox (
			queue TEXT NOT NULL, message TEXT NOT NULL, handled BIGINT NOT NULL, PRIMARY KEY (queue, message))`,
		`CREATE INDEX IF NOT EXISTS watership_inbox_handled ON watership_inbox (handled)`,
	}
}

// waits is the condition of the messages that were refused or not confirmed, by destination.
const waits = "attempts > 0 AND length(exchange) < 256 AND length(routing_key) < 256"

// Publish adds messages to the outbox. They are published in this order once tx commits, and
// after messages of transactions that committed before tx began. A message without an id gets
// a random one, and one without a delivery mode is persistent. If the outbox is full, the
// error is ErrFull, and the caller rolls tx back.
func Publish(ctx context.Context, tx *sql.Tx, messages ...schemas.Envelope) error {
	rows := make([]outgoing, len(messages))
	for i, e := range messages {
		var err error
		if rows[i], err = prepare(e); err != nil {
			return err
		}
	}
	return add(ctx, tx, rows)
}

// outgoing is a message as its rows have it.
type outgoing struct {
	schemas.Envelope
	properties string // encoded
}

func prepare(e schemas.Envelope) (outgoing, error) {
	if e.Properties.MessageID == "" {
		e.Properties.MessageID = watermill.NewULID()
	}
	if e.Properties.DeliveryMode == 0 {
		e.Properties.DeliveryMode = amqp.Persistent
	}
	if e.Body == nil {
		e.Body = []byte{}
	}
	properties, err := encodeProperties(e)
	if err != nil {
		return outgoing{}, fmt.Errorf("message %s for exchange %q: %w", e.Properties.MessageID, e.Exchange, err)
	}
	return outgoing{e, string(properties)}, nil
}

func add(ctx context.Context, tx *sql.Tx, messages []outgoing) error {
	var id int64 // of the last message
	for _, m := range messages {
		row := tx.QueryRowContext(ctx, "INSERT INTO watership_outbox (exchange, routing_key, properties, body) VALUES ($1, $2, $3, $4) RETURNING id",
			m.Exchange, m.RoutingKey, m.properties, m.Body)
		if err := row.Scan(&id); err != nil {
			return fmt.Errorf("adding message %s to the outbox: %w", m.Properties.MessageID, err)
		}
	}
	if id <= Limit {
		return nil
	}
	// After the insert, since SQLite may refuse a transaction that reads first and then writes.
	var isFull bool
	if err := tx.QueryRowContext(ctx, isFullQuery(), id).Scan(&isFull); err != nil {
		return fmt.Errorf("looking for old messages of the outbox: %w", err)
	}
	if isFull {
		return ErrFull
	}
	return nil
}

// The outbox is full if a message waits that is Limit ids older. Only ranges of ids are looked at,
// since PostgreSQL walks over the rows that were deleted as long as an old snapshot may see them, as the
// lowest id would make it do. Messages that were refused use up ids as well: the ranges are so many that
// they find the ones that wait after several millions of those.
const (
	probes     = 8
	probeWidth = 1000
)

// isFullQuery returns the query for a message that waits Limit ids before $1, or twice that, and so on.
func isFullQuery() string {
	var ranges []string
	for n := 1; n <= probes; n++ {
		to := n * Limit
		ranges = append(ranges, fmt.Sprintf("EXISTS (SELECT 1 FROM watership_outbox WHERE attempts = 0 AND id > CAST($1 AS BIGINT) - %d AND id <= CAST($1 AS BIGINT) - %d)", to+probeWidth, to))
	}
	return "SELECT " + strings.Join(ranges, " OR ")
}

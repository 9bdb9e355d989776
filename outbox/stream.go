package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/schemas"
)

// Headers of the events of Append. A rule of package streamid with the id {headers.stream-id} and the version
// {headers.stream-version} finds the streams in the recorded messages.
const (
	StreamHeader  = "stream-id"
	VersionHeader = "stream-version" // an int64
)

// ErrConflict: another transaction has appended to the stream since the caller read it. The caller rolls
// back, loads the stream again and decides again.
var ErrConflict = errors.New("another transaction has written first: roll back, load the stream again and decide again")

func streamSchema(dialect database.Dialect) []string {
	return []string{
		`CREATE TABLE IF NOT EXISTS watership_stream (id TEXT PRIMARY KEY, version BIGINT NOT NULL)`,
		`CREATE TABLE IF NOT EXISTS watership_stream_event (
			stream TEXT NOT NULL, version BIGINT NOT NULL, exchange TEXT NOT NULL, routing_key TEXT NOT NULL,
			properties TEXT NOT NULL, body ` + dialect.Blob + ` NOT NULL, PRIMARY KEY (stream, version))`,
	}
}

// Append adds events to a stream, which get the versions after expected, and publishes them as Publish
// does. The expected version is the version of the last event, as Load returns it; 0: the stream has no events, so
// that the first gets version 1. The events stay in the database, and have the stream and their version as headers.
//
// The error is ErrConflict if the stream has another version, or if the database says that a transaction
// at the same time makes this one impossible. Of several transactions that append to a stream at one version,
// one commits. Without events Append does nothing. The id of a stream has 1 to 512 bytes of UTF-8 without
// control characters.
func Append(ctx context.Context, tx *sql.Tx, stream string, expected int64, events ...schemas.Envelope) error {
	if err := checkStream(stream, expected); err != nil {
		return err
	}
	if len(events) == 0 {
		return nil
	}
	rows := make([]outgoing, len(events))
	for i, e := range events {
		e.Headers = maps.Clone(e.Headers)
		if e.Headers == nil {
			e.Headers = amqp.Table{}
		}
		e.Headers[StreamHeader], e.Headers[VersionHeader] = stream, expected+int64(i)+1
		var err error
		if rows[i], err = prepare(e); err != nil {
			return err
		}
	}
	// The row of the stream first: another transaction waits for it, and so its messages come later in the outbox.
	if err := advance(ctx, tx, stream, expected, expected+int64(len(events))); err != nil {
		return fmt.Errorf("appending to stream %s after version %d: %w", stream, expected, err)
	}
	for i, m := range rows {
		_, err := tx.ExecContext(ctx, "INSERT INTO watership_stream_event (stream, version, exchange, routing_key, properties, body) VALUES ($1, $2, $3, $4, $5, $6)",
			stream, expected+int64(i)+1, m.Exchange, m.RoutingKey, m.properties, m.Body)
		if err != nil {
			return fmt.Errorf("adding version %d to stream %s: %w", expected+int64(i)+1, stream, err)
		}
	}
	return add(ctx, tx, rows)
}

func checkStream(stream string, expected int64) error {
	if !(schemas.MessageStream{ID: stream}).IsValid() {
		return fmt.Errorf("%q cannot be the id of a stream: expected 1 to 512 bytes of UTF-8 without control characters", stream)
	}
	if expected < 0 {
		return fmt.Errorf("expected version %d of stream %s: the version of a stream without events is 0", expected, stream)
	}
	return nil
}

// advance changes the version of a stream if it is the expected one.
func advance(ctx context.Context, tx *sql.Tx, stream string, expected, version int64) error {
	query, parameters := "UPDATE watership_stream SET version = $2 WHERE id = $1 AND version = $3", []any{stream, version, expected}
	if expected == 0 {
		query, parameters = "INSERT INTO watership_stream (id, version) VALUES ($1, $2) ON CONFLICT DO NOTHING", parameters[:2]
	}
	result, err := tx.ExecContext(ctx, query, parameters...)
	if isConcurrent(err) {
		return fmt.Errorf("%w (%w)", ErrConflict, err)
	}
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return ErrConflict
}

// isConcurrent reports whether a statement failed since another transaction has written: by the SQLSTATE of
// a serialization failure or a deadlock, or since SQLite does not let a transaction write that read before the other one did.
func isConcurrent(err error) bool {
	var answer interface{ SQLState() string }
	if errors.As(err, &answer) {
		return answer.SQLState() == "40001" || answer.SQLState() == "40P01"
	}
	return err != nil && strings.Contains(err.Error(), "database is locked")
}

// Load returns the events of a stream in the order of their versions, as they were or will be published,
// and the version of the last one, which Append expects; no events and 0: the stream does not exist.
// Events that a program has deleted from the table watership_stream_event are missing, and keep their version.
func Load(ctx context.Context, tx *sql.Tx, stream string) (events []schemas.Envelope, version int64, err error) {
	err = tx.QueryRowContext(ctx, "SELECT version FROM watership_stream WHERE id = $1", stream).Scan(&version)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, 0, nil
	}
	if err == nil {
		events, err = eventsUpTo(ctx, tx, stream, version)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("loading stream %s: %w", stream, err)
	}
	return events, version, nil
}

// eventsUpTo returns the events up to a version, since the transaction may see later ones by now.
func eventsUpTo(ctx context.Context, tx *sql.Tx, stream string, version int64) (events []schemas.Envelope, err error) {
	rows, err := tx.QueryContext(ctx, "SELECT exchange, routing_key, properties, body FROM watership_stream_event WHERE stream = $1 AND version <= $2 ORDER BY version", stream, version)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var e schemas.Envelope
		var properties string
		if err := rows.Scan(&e.Exchange, &e.RoutingKey, &properties, &e.Body); err != nil {
			return nil, err
		}
		if err := decodeProperties(&e, properties); err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, rows.Err()
}

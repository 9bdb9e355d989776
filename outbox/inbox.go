package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/pipeline"
	"github.com/watershipmq/watership/retry"
	"github.com/watershipmq/watership/schemas"
)

// Inbox makes the handlers of routes work in transactions of a database. DB is required.
// Handlers of several routes share one.
type Inbox struct {
	DB *sql.DB

	// Publish is the exchange and key of outgoing messages that name none themselves.
	Publish pipeline.Binding

	// Retention is the time for which handled messages are known. Zero: 7 days.
	Retention time.Duration

	mu      sync.Mutex       // guards the fields below
	dialect database.Dialect // once the tables exist
	pruned  time.Time        // time of the latest look for old rows
}

const (
	defaultRetention = 7 * 24 * time.Hour
	pruneInterval    = time.Minute
	pruneRows        = 10_000 // deleted at once
)

// Handler wraps the handler of a route. The handler gets a transaction (see Tx), in which it
// does all its work. It is committed, with the messages that the handler returns in the
// outbox, unless the handler fails; then the route acknowledges the message. A message that
// was handled before is acknowledged and not handled again: one with the same content,
// message id and queue, unless a replay sends it, which has been asked for. Equal messages
// without a message id cannot be distinguished, so each is handled.
//
// Wrap Route.Handler with it, rather than adding it to the router, whose middleware sees no
// outgoing messages. Without the database a message waits and loses no attempt.
func (i *Inbox) Handler(handler message.HandlerFunc) message.HandlerFunc {
	return func(msg *message.Message) ([]*message.Message, error) {
		ctx := msg.Context()
		dialect, err := i.prepare(ctx)
		if err != nil {
			return nil, retry.Unavailable(err)
		}
		hasBegun := false
		err = database.InTx(ctx, i.DB, func(tx *sql.Tx) error {
			hasBegun = true
			if err := i.handle(ctx, tx, dialect, msg, handler); !errors.Is(err, errHandled) {
				return err
			}
			return nil
		})
		switch {
		case err == nil:
			i.prune(ctx, dialect)
		case !hasBegun || i.isAway(ctx, err):
			err = retry.Unavailable(err)
		}
		return nil, err
	}
}

// isAway reports whether the database is to blame for an error of a handler, or of the commit. A handler can also make
// the commit fail, as with a constraint that is checked at the end.
func (i *Inbox) isAway(ctx context.Context, err error) bool {
	if ctx.Err() != nil || retry.IsPermanent(err) {
		return false
	}
	return isConnectionLost(err) || i.DB.PingContext(ctx) != nil
}

// isConnectionLost reports whether a database has ended a connection, by the error of its driver or by the class of
// its SQLSTATE: 08, a connection exception, or 57P, an intervention of its operator
// (https://www.postgresql.org/docs/current/errcodes-appendix.html).
func isConnectionLost(err error) bool {
	var answer interface{ SQLState() string }
	if errors.As(err, &answer) {
		return strings.HasPrefix(answer.SQLState(), "08") || strings.HasPrefix(answer.SQLState(), "57P")
	}
	return errors.Is(err, driver.ErrBadConn)
}

// prepare creates the tables, once.
func (i *Inbox) prepare(ctx context.Context) (database.Dialect, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dialect.Name != "" {
		return i.dialect, nil
	}
	dialect, err := database.DialectOf(ctx, i.DB)
	if err == nil {
		err = Install(ctx, i.DB)
	}
	if err == nil {
		i.dialect = dialect
	}
	return dialect, err
}

// errHandled: the message was handled before.
var errHandled = errors.New("the message was handled before")

func (i *Inbox) handle(ctx context.Context, tx *sql.Tx, dialect database.Dialect, msg *message.Message, handler message.HandlerFunc) error {
	if err := i.enter(ctx, tx, dialect); err != nil {
		return err
	}
	msg.SetContext(context.WithValue(ctx, txKey{}, tx))
	produced, err := handler(msg)
	msg.SetContext(ctx)
	if err != nil {
		return err
	}
	for ordinal, outgoing := range produced {
		if outgoing == nil {
			return fmt.Errorf("outgoing message %d of %d is nil", ordinal+1, len(produced))
		}
		e, err := pipeline.OutgoingEnvelope(ctx, outgoing, ordinal, i.Publish)
		if err != nil {
			return err
		}
		if err := Publish(ctx, tx, e); errors.Is(err, ErrFull) {
			return retry.Unavailable(err)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// enter records the message as handled. Of two processes with the same message the second
// waits for the first one's transaction.
func (i *Inbox) enter(ctx context.Context, tx *sql.Tx, dialect database.Dialect) error {
	e, _ := schemas.FromContext(ctx)
	if e.Properties.MessageID == "" {
		return nil
	}
	attempt := retry.AttemptFrom(ctx)
	id := cmp.Or(attempt.Fingerprint, e.Fingerprint())
	if attempt.Replay != "" {
		id += " " + attempt.Replay
	}
	result, err := tx.ExecContext(ctx, "INSERT INTO watership_inbox (queue, message, handled) VALUES ($1, $2, "+dialect.Now+") ON CONFLICT DO NOTHING",
		attempt.Queue, id)
	if err != nil {
		return retry.Unavailable(fmt.Errorf("recording message %s in the inbox: %w", e.Properties.MessageID, err))
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return cmp.Or(err, errHandled)
	}
	return nil
}

// prune deletes rows that are older than the retention, now and then: after each message until none
// is left, so that the inbox grows at no rate of messages.
func (i *Inbox) prune(ctx context.Context, dialect database.Dialect) {
	i.mu.Lock()
	isDue := time.Since(i.pruned) >= pruneInterval
	if isDue {
		i.pruned = time.Now()
	}
	i.mu.Unlock()
	if !isDue {
		return
	}
	deleted, err := i.DB.ExecContext(ctx, fmt.Sprintf(`DELETE FROM watership_inbox WHERE handled < %s - $1 AND (queue, message) IN
		(SELECT queue, message FROM watership_inbox ORDER BY handled LIMIT %d)`, dialect.Now, pruneRows), cmp.Or(i.Retention, defaultRetention).Microseconds())
	if err != nil {
		return // the rows are left to the next time
	}
	if n, err := deleted.RowsAffected(); err == nil && n == pruneRows {
		i.mu.Lock()
		i.pruned = time.Time{}
		i.mu.Unlock()
	}
}

type txKey struct{}

// Tx returns the transaction of the message being handled, from the context of the message;
// nil outside of Inbox.Handler.
func Tx(ctx context.Context) *sql.Tx {
	tx, _ := ctx.Value(txKey{}).(*sql.Tx)
	return tx
}

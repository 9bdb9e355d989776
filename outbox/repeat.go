package outbox

import (
	"context"
	"errors"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/internal/rabbit"
)

// sender has a publisher with its own connection, from the first use on. One goroutine uses it.
type sender struct {
	relay      *Relay
	purpose    string             // of the connection
	connection *rabbit.Connection // nil: none is open
	publishing *rabbit.Publisher
}

func (s *sender) publisher() (*rabbit.Publisher, error) {
	if s.connection != nil {
		return s.publishing, nil
	}
	cfg := s.relay.cfg
	connection, err := rabbit.Open(rabbit.At(cfg.Connection, s.purpose, cfg.Logger))
	if err == nil {
		s.connection, s.publishing = connection, rabbit.NewPublisher(connection, rabbit.PublisherConfig{StopTimeout: time.Second})
	}
	return s.publishing, err
}

// close closes the connection; publisher opens another one.
func (s *sender) close() (err error) {
	if s.connection != nil {
		err = errors.Join(s.publishing.Close(), s.connection.Close())
		s.connection, s.publishing = nil, nil
	}
	return err
}

// takes reports whether the broker takes messages at all now.
func (s *sender) takes() bool { return s.connection.Err() == nil && !rabbit.IsBlocked(s.connection) }

// repeat publishes the messages again that were refused or not confirmed, when they are due, until ctx ends. It
// has its own connection, since those that are not confirmed hold up others. It calls lose if the lease is lost.
func (s *session) repeat(ctx context.Context, lose func(error)) {
	by := &sender{relay: s.Relay, purpose: "outbox, again"}
	defer by.close()
	pauses := backoff.Backoff{Min: 100 * time.Millisecond, Max: 5 * time.Second}
	for failures := 0; ctx.Err() == nil; {
		n, err := s.repeatDue(ctx, by)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, database.ErrLeaseLost):
			lose(err)
			return
		case err != nil:
			failures++
			s.cfg.Logger.Warn("refused messages of the outbox wait", "error", err)
			_ = pauses.Wait(ctx, failures, 0)
		case n == 0:
			_ = s.pause(ctx)
		default:
			failures = 0
		}
	}
}

// repeatDue publishes some messages that are due, and returns their number. Of a destination that does not
// confirm it tries one message. PostgreSQL uses an index only for a time that is read once.
func (s *session) repeatDue(ctx context.Context, by *sender) (int, error) {
	rows, err := s.read(ctx, "attempts > 0 AND due <= (SELECT "+s.dialect.Now+") ORDER BY due")
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	tried := map[destination]bool{}
	return len(rows), s.send(ctx, by, rows, func(d destination) bool {
		may := !s.slow.has(d) || !tried[d]
		tried[d] = true
		return may
	})
}

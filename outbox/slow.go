package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/watershipmq/watership/internal/backoff"
)

// destination is the place to which messages go. If it does not confirm, as far as is known, its messages are
// not sent with others: RabbitMQ stops reading a connection on which too much waits.
type destination struct{ exchange, key string }

func (r row) destination() destination {
	return destination{r.envelope.Exchange, r.envelope.RoutingKey}
}

// slow has the destinations that do not confirm.
type slow struct {
	mu    sync.Mutex // guards waits
	waits map[destination]wait
}

// wait is the time for which nothing is sent to a destination.
type wait struct {
	timeouts int // one after the other
	end      time.Time
}

// maxDelay is the longest pause after time-outs of a destination.
const maxDelay = time.Minute

func (s *slow) has(d destination) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.waits[d]
	return has
}

// left returns the time until the next attempt at a destination.
func (s *slow) left(d destination) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, time.Until(s.waits[d].end))
}

// note notes which destinations did not confirm, and returns the pauses that follow. It also returns those that
// have answered again: a refusal is an answer.
func (s *session) note(page *page) (postponed map[destination]time.Duration, awake []destination) {
	s.slow.mu.Lock()
	defer s.slow.mu.Unlock()
	postponed = map[destination]time.Duration{}
	delays := backoff.Backoff{Min: time.Second, Max: maxDelay}
	for _, row := range page.late {
		d := row.destination()
		if _, is := postponed[d]; is {
			continue
		}
		w, was := s.slow.waits[d]
		if !was {
			s.cfg.Logger.Warn("messages of the outbox are not confirmed; they wait", "exchange", d.exchange, "routing_key", d.key, "timeout", s.cfg.ConfirmTimeout)
		}
		w.timeouts++
		postponed[d] = delays.Pause(w.timeouts)
		w.end = time.Now().Add(postponed[d])
		s.slow.waits[d] = w
	}
	for d := range page.answered {
		if _, is := s.slow.waits[d]; is && postponed[d] == 0 {
			delete(s.slow.waits, d)
			awake = append(awake, d)
		}
	}
	return postponed, awake
}

// move changes when the messages that wait for some destinations are due: after a pause, or now. A time-out of
// one message says enough about all others, each of which would take as long.
func (s *session) move(ctx context.Context, tx *sql.Tx, postponed map[destination]time.Duration, awake []destination) error {
	const ofDestination = " WHERE " + waits + " AND exchange = $2 AND routing_key = $3 AND due "
	for d, pause := range postponed {
		_, err := tx.ExecContext(ctx, "UPDATE watership_outbox SET due = "+s.dialect.Now+" + $1"+ofDestination+"< "+s.dialect.Now+" + $1",
			pause.Microseconds(), d.exchange, d.key)
		if err != nil {
			return fmt.Errorf("postponing messages of the outbox: %w", err)
		}
	}
	for _, d := range awake {
		_, err := tx.ExecContext(ctx, "UPDATE watership_outbox SET due = "+s.dialect.Now+ofDestination+"<= "+s.dialect.Now+" + $1",
			maxDelay.Microseconds(), d.exchange, d.key)
		if err != nil {
			return fmt.Errorf("repeating messages of the outbox: %w", err)
		}
	}
	return nil
}

var errNotConfirmed = errors.New("not confirmed in time")

func (s *session) notConfirmed() error {
	return fmt.Errorf("%w (%s): a queue that gets it may have no majority of its nodes", errNotConfirmed, s.cfg.ConfirmTimeout)
}

func (s *session) notSent() error {
	return fmt.Errorf("not sent yet: another message with this exchange and routing key was %w", s.notConfirmed())
}

package projection

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/subscription"
)

// ParkedEvent is an event that was recorded without being handled.
type ParkedEvent struct {
	Generation int64
	Position   eventstore.Cursor // EventID is "" for a document that is no event
	Failure    string            // the last error
	Time       time.Time
}

// park records an event. A document that is no event is recorded at the position before it.
func (r *runner) park(ctx context.Context, tx *sql.Tx, item subscription.Item, position eventstore.Cursor, failure error) error {
	if item.Err == nil {
		position = item.Position
	} else {
		position.EventID = ""
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO watership_projection_parked (name, generation, sequence, event_id, failure, parked)
		VALUES ($1, $2, $3, $4, $5, `+r.dialect.Now+`) ON CONFLICT DO NOTHING`,
		r.cfg.Name, r.generation.Number, position.Sequence, position.EventID, database.Text(failure))
	if err != nil {
		return fmt.Errorf("parking event %s: %w", position.EventID, err)
	}
	return nil
}

// Parked returns the parked events, at most 1,000 of them, in their order. A generation of a
// rebuild handles them again.
func (p *Projection) Parked(ctx context.Context) (parked []ParkedEvent, err error) {
	c, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := c.cfg.DB.QueryContext(ctx, `SELECT generation, sequence, event_id, failure, parked FROM watership_projection_parked
		WHERE name = $1 ORDER BY generation, sequence, event_id LIMIT 1000`, c.cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("projection %s: reading the parked events: %w", c.cfg.Name, err)
	}
	defer rows.Close()
	for rows.Next() {
		var e ParkedEvent
		var microseconds int64
		if err := rows.Scan(&e.Generation, &e.Position.Sequence, &e.Position.EventID, &e.Failure, &microseconds); err != nil {
			return nil, fmt.Errorf("projection %s: reading the parked events: %w", c.cfg.Name, err)
		}
		e.Time = time.UnixMicro(microseconds).UTC()
		parked = append(parked, e)
	}
	return parked, rows.Err()
}

// Generations returns the generations of the projection, the oldest first: the one that is
// read, and the one that Rebuild makes.
func (p *Projection) Generations(ctx context.Context) ([]Generation, error) {
	c, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	return c.readGenerations(ctx, c.cfg.DB)
}

package projection

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/database"
)

// State is the use of a generation.
type State string

// The states of a generation, in their order.
const (
	Building State = "building" // Rebuild fills its tables
	Live     State = "live"     // programs read its tables
	Retired  State = "retired"  // programs read its tables before a switch-over; Drop drops them
	Past     State = "past"     // UpTo fills its tables, until Generation.UpTo; Drop drops them
)

// Generation is one set of the tables of a projection, with its checkpoint.
type Generation struct {
	Number   int64
	Version  int // Config.Version of the program that made it
	State    State
	UpTo     time.Time         // of Past: the tables are as they were then; else zero
	First    int64             // event.sequence of the first event that was handled or parked; 0: none, or not known
	Position eventstore.Cursor // every matching event before it was handled
	Events   int64             // handled
	Parked   int64             // recorded without being handled
	Failure  string            // error of the latest attempt; "" after a success
	Updated  time.Time

	tables   []string
	reads    string // the source and the query; "": not known
	accepted int64  // subscription.Reader.Accept
	attempts int    // at the event after the position that have failed
	revision int64  // counts the transactions that changed it
}

// Tables names the tables of the generation, as Create does.
func (g Generation) Tables() Tables { return Tables{g.Number} }

// known returns the number of events that were handled or parked.
func (g Generation) known() int64 { return g.Events + g.Parked }

// schema creates the tables of all projections of a database.
func schema() []string {
	return []string{
		database.LeaseTable,
		`CREATE TABLE IF NOT EXISTS watership_projection (
			name TEXT NOT NULL, generation BIGINT NOT NULL, version BIGINT NOT NULL, state TEXT NOT NULL,
			tables TEXT NOT NULL, sequence BIGINT NOT NULL, event_id TEXT NOT NULL, events BIGINT NOT NULL,
			parked BIGINT NOT NULL, failure TEXT NOT NULL, revision BIGINT NOT NULL, updated BIGINT NOT NULL,
			PRIMARY KEY (name, generation))`,
		`CREATE UNIQUE INDEX IF NOT EXISTS watership_projection_live ON watership_projection (name) WHERE state = 'live'`,
		`CREATE TABLE IF NOT EXISTS watership_projection_parked (
			name TEXT NOT NULL, generation BIGINT NOT NULL, sequence BIGINT NOT NULL, event_id TEXT NOT NULL,
			failure TEXT NOT NULL, parked BIGINT NOT NULL, PRIMARY KEY (name, generation, sequence, event_id))`,
	}
}

// addedColumns are columns of watership_projection that former versions of the table do not have.
func addedColumns() []string {
	return []string{"first_sequence BIGINT NOT NULL DEFAULT 0", "reads TEXT NOT NULL DEFAULT ''", "attempts BIGINT NOT NULL DEFAULT 0", "accepted BIGINT NOT NULL DEFAULT 0", "up_to BIGINT NOT NULL DEFAULT 0"}
}

const generationColumns = `generation, version, state, tables, reads, accepted, up_to, attempts, first_sequence, sequence, event_id, events, parked, failure, revision, updated`

func scanGeneration(row interface{ Scan(...any) error }) (g Generation, err error) {
	var tables string
	var upTo, updated int64
	err = row.Scan(&g.Number, &g.Version, &g.State, &tables, &g.reads, &g.accepted, &upTo, &g.attempts, &g.First, &g.Position.Sequence, &g.Position.EventID, &g.Events, &g.Parked, &g.Failure, &g.revision, &updated)
	g.tables, g.Updated = splitNames(tables), time.UnixMicro(updated).UTC()
	if upTo > 0 {
		g.UpTo = time.UnixMicro(upTo).UTC()
	}
	return g, err
}

// queryer is a database or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// readGenerations returns all generations, the oldest first.
func (c *connection) readGenerations(ctx context.Context, from queryer) (all []Generation, err error) {
	rows, err := from.QueryContext(ctx, "SELECT "+generationColumns+" FROM watership_projection WHERE name = $1 ORDER BY generation", c.cfg.Name)
	if err != nil {
		return nil, fmt.Errorf("reading the checkpoints: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		g, err := scanGeneration(rows)
		if err != nil {
			return nil, fmt.Errorf("reading the checkpoints: %w", err)
		}
		all = append(all, g)
	}
	return all, rows.Err()
}

// createGeneration creates the next generation with its tables, of Past up to a time in microseconds, of others up to 0.
// It returns false if another process has just created one.
func (c *connection) createGeneration(ctx context.Context, state State, upTo int64) (created bool, err error) {
	accepted, err := c.cfg.Reader.Acceptable(ctx)
	if err != nil {
		return false, err
	}
	err = database.InTx(ctx, c.cfg.DB, func(tx *sql.Tx) error {
		// The insert is the first statement, so that SQLite waits for other writers.
		row := tx.QueryRowContext(ctx, `INSERT INTO watership_projection
			(name, generation, version, state, tables, reads, accepted, up_to, sequence, event_id, events, parked, failure, revision, updated)
			SELECT CAST($1 AS TEXT), COALESCE(MAX(generation), 0) + 1, CAST($2 AS BIGINT), CAST($3 AS TEXT), CAST($4 AS TEXT), CAST($5 AS TEXT), CAST($6 AS BIGINT), CAST($7 AS BIGINT), 0, '', 0, 0, '', 0, `+c.dialect.Now+`
			FROM watership_projection WHERE name = $8
			HAVING COUNT(CASE WHEN state = $9 AND up_to = $10 THEN 1 END) = 0
			ON CONFLICT DO NOTHING RETURNING generation`,
			c.cfg.Name, c.cfg.Version, string(state), joinNames(c.cfg.Tables), c.cfg.reads(), accepted, upTo, c.cfg.Name, string(state), upTo)
		var number int64
		if err := row.Scan(&number); errors.Is(err, sql.ErrNoRows) {
			return nil
		} else if err != nil {
			return fmt.Errorf("creating generation: %w", err)
		}
		if err := c.cfg.Create(ctx, tx, Tables{number}); err != nil {
			return fmt.Errorf("creating the tables of generation %d: %w", number, err)
		}
		if created = true; state == Live {
			return c.showViews(ctx, tx, number, nil)
		}
		return nil
	})
	return created && err == nil, err
}

// dropGeneration drops the tables, the checkpoint and the lease of a generation that is not
// read. The delete comes first, so that SQLite waits for other writers.
func (c *connection) dropGeneration(ctx context.Context, tx *sql.Tx, g Generation) error {
	for _, statement := range []string{
		"DELETE FROM watership_projection WHERE name = $1 AND generation = $2",
		"DELETE FROM watership_projection_parked WHERE name = $1 AND generation = $2",
	} {
		if _, err := tx.ExecContext(ctx, statement, c.cfg.Name, g.Number); err != nil {
			return fmt.Errorf("deleting the checkpoint of generation %d: %w", g.Number, err)
		}
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM watership_lease WHERE name = $1", c.leaseName(g)); err != nil {
		return fmt.Errorf("deleting the lease of generation %d: %w", g.Number, err)
	}
	err := c.limitLocks(ctx, tx)
	if err == nil {
		err = dropTables(ctx, tx, g.Number, g.tables)
	}
	if err != nil {
		return fmt.Errorf("dropping generation %d: %w", g.Number, err)
	}
	return nil
}

func (c *connection) leaseName(g Generation) string {
	return fmt.Sprintf("projection %s generation %d", c.cfg.Name, g.Number)
}

// checkpoint is the change of a generation by one transaction.
type checkpoint struct {
	position        eventstore.Cursor
	first           int64 // event.sequence of the first event; 0: none exists
	handled, parked int64
}

// advance saves a checkpoint. It fails with ErrLeaseLost if another transaction has changed
// the generation since it was read.
func (c *connection) advance(ctx context.Context, tx *sql.Tx, g Generation, to checkpoint) error {
	result, err := tx.ExecContext(ctx, `UPDATE watership_projection SET sequence = $1, event_id = $2, events = events + $3,
		parked = parked + $4, first_sequence = $5, attempts = 0, failure = '', revision = revision + 1, updated = `+c.dialect.Now+`
		WHERE name = $6 AND generation = $7 AND revision = $8 AND state <> 'retired'`,
		to.position.Sequence, to.position.EventID, to.handled, to.parked, to.first, c.cfg.Name, g.Number, g.revision)
	if err != nil {
		return fmt.Errorf("saving the checkpoint: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(fmt.Errorf("generation %d: %w", g.Number, database.ErrLeaseLost), err)
	}
	return nil
}

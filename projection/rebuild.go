package projection

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/backoff"
	"github.com/watershipmq/watership/internal/database"
)

// RebuildOption changes what Rebuild does.
type RebuildOption int

// Fewer lets Rebuild switch over to tables of fewer events than those that are read, as after a
// retention has removed events, or for a query that selects fewer.
const Fewer RebuildOption = 1

// ErrFewer is the error of a Rebuild whose tables have fewer events than those that are read. They
// are complete, and the next Rebuild with Fewer switches over to them.
var ErrFewer = errors.New("the rebuilt tables have fewer events")

// Rebuild makes the tables again from the first event, in a new generation, while another
// process may keep those that are read. Once the new ones have every event that the old ones
// have, it makes the views show the new ones in one transaction. The old ones are kept for
// Rollback until Drop. A rebuild that was interrupted is continued by the next one of the same
// Config.Version and reader. Of several at once, one works and the others wait for it.
//
// It returns the generation that is read then. A process in Run goes on with it, if its
// Config.Version is the same. Its error is ErrFewer, and nothing is changed for readers, if the new
// tables have fewer events than the old ones, or if the store no longer has the time in which the
// old ones begin.
func (p *Projection) Rebuild(ctx context.Context, options ...RebuildOption) (Generation, error) {
	c, err := p.connect(ctx)
	if err != nil {
		return Generation{}, err
	}
	defer c.calls.Close()
	b := rebuild{connection: c, fewer: slices.Contains(options, Fewer)}
	err = c.checkSource(ctx)
	for err == nil && b.done.Number == 0 {
		var r *runner
		if r, err = await(ctx, c, func() (*runner, error) { return b.next(ctx) }); err == nil && b.done.Number == 0 {
			err = r.end(ctx, b.fill(ctx, r))
		}
		if errors.Is(err, database.ErrLeaseLost) {
			err = nil // the generation says what became of it
		}
	}
	if err != nil {
		return b.done, fmt.Errorf("projection %s: rebuilding: %w", c.cfg.Name, err)
	}
	return b.done, nil
}

// checkSource returns an error for a source that nothing has ever been recorded of.
func (c *connection) checkSource(ctx context.Context) error {
	var isKnown bool
	err := c.insist(ctx, func() (err error) {
		isKnown, err = c.cfg.Reader.KnowsSource(ctx)
		return err
	})
	if err == nil && !isKnown {
		err = c.unknownSource()
	}
	return err
}

func (c *connection) unknownSource() error {
	return fmt.Errorf("the store has no event of source %q, and no indexer has recorded any: each event of a message has its source", c.cfg.Reader.Source)
}

// rebuild is one call of Rebuild.
type rebuild struct {
	*connection
	fewer  bool       // switch over to fewer events, too
	number int64      // of the generation that this or another process makes
	done   Generation // once it is read
}

// fill handles events until the switch-over. If the rebuild was interrupted before that, there
// may be no further events.
func (b *rebuild) fill(ctx context.Context, r *runner) error {
	if position := r.generation.Position; position.Sequence > 0 && position.EventID == "" {
		if done, err := b.switchOver(ctx, r); done || err != nil {
			return err
		}
	}
	return r.follow(ctx, b.switchOver)
}

// next returns a runner of the generation to fill, or one without a lease once it is read.
func (b *rebuild) next(ctx context.Context) (*runner, error) {
	all, err := b.readGenerations(ctx, b.cfg.DB)
	if err != nil {
		return nil, err
	}
	var building Generation
	for _, g := range all {
		switch {
		case g.State == Live && g.Version > b.cfg.Version:
			return nil, b.superseded(g)
		case g.State == Live && g.Number == b.number:
			b.done = g
			return &runner{}, nil
		case g.State == Building:
			building = g
		}
	}
	if building.Number == 0 {
		_, err := b.createGeneration(ctx, Building, 0)
		return nil, err
	}
	r, err := b.lead(ctx, building)
	if r == nil || err != nil {
		if building.Version == b.cfg.Version {
			b.number = building.Number // which another process fills
		}
		return nil, err
	}
	if r.generation.State != Building {
		r.lease.Release(ctx)
		return nil, nil
	}
	if building.Version != b.cfg.Version || building.reads != "" && building.reads != b.cfg.reads() {
		defer r.lease.Release(ctx)
		return nil, b.discard(ctx, r)
	}
	b.number = building.Number
	b.cfg.Logger.Info("rebuilding", "generation", b.number, "events", r.generation.Events)
	return r, nil
}

// discard drops the generation of a rebuild, such as one that a program of another version or of
// another query began.
func (c *connection) discard(ctx context.Context, r *runner) error {
	return database.InTx(ctx, c.cfg.DB, func(tx *sql.Tx) error {
		if err := r.lease.Fence(ctx, tx); err != nil {
			return err
		}
		return c.dropGeneration(ctx, tx, r.generation)
	})
}

// catchUpTimeout limits how long a process in Run waits for the switch-over.
const catchUpTimeout = time.Second

// lockTimeout is the time after which a transaction that waits for readers gives up.
const lockTimeout = "2s"

// errBehind: the tables that are read have later events.
var errBehind = errors.New("the generation that is read has later events")

// switchOver makes the views show the new generation, unless the old one is ahead. It tries
// again after an error that may pass, such as a reader that holds a view for long.
func (b *rebuild) switchOver(ctx context.Context, r *runner) (done bool, err error) {
	for failures := 1; ; failures++ {
		err := b.trySwitch(ctx, r)
		switch {
		case err == nil:
			b.cfg.Logger.Info("switched over", "generation", r.generation.Number, "events", r.generation.Events)
			b.done = r.generation
			return true, nil
		case errors.Is(err, errBehind):
			b.cfg.Logger.Info("no switch-over yet", "reason", err)
			return false, nil
		case isFinal(ctx, err):
			return false, err
		case errors.Is(err, ErrFewer):
			r.noteFailure(ctx, err)
			return false, err
		}
		err = fmt.Errorf("switching over: %w", err)
		r.noteFailure(ctx, err)
		if failures == tries {
			return false, err
		}
		b.cfg.Logger.Warn("trying the switch-over again", "error", err)
		if err := backoff.Sleep(ctx, pollInterval); err != nil {
			return false, err
		}
		if err := b.recheck(ctx, r); err != nil {
			return false, err
		}
	}
}

// recheck fails with ErrLeaseLost if the commit of a switch-over had succeeded.
func (b *rebuild) recheck(ctx context.Context, r *runner) error {
	isThere := false
	err := b.insist(ctx, func() (err error) {
		isThere, err = r.reload(ctx)
		return err
	})
	if err == nil && (!isThere || r.generation.State != Building) {
		return database.ErrLeaseLost
	}
	return err
}

// trySwitch locks rows of the old generation first, as its runner does.
func (b *rebuild) trySwitch(ctx context.Context, r *runner) error {
	after := r.generation
	oldest, err := b.cfg.Reader.OldestSequence(ctx)
	if err != nil {
		return err
	}
	err = database.InTx(ctx, b.cfg.DB, func(tx *sql.Tx) error {
		if err := r.lease.Fence(ctx, tx); err != nil {
			return err
		}
		former, err := b.retire(ctx, tx)
		if err != nil {
			return err
		}
		if after, err = b.catchUp(ctx, tx, r, former.Position); err != nil {
			return err
		}
		if err := b.compare(former, after, oldest); err != nil {
			return err
		}
		if err := b.enliven(ctx, tx, after); err != nil {
			return err
		}
		if err := b.limitLocks(ctx, tx); err != nil {
			return err
		}
		return b.showViews(ctx, tx, after.Number, former.tables)
	})
	if err == nil {
		after.State, after.revision = Live, after.revision+1
		r.generation = after
	}
	return err
}

// compare returns ErrFewer if a switch-over would lose events. The oldest event is the one of the
// store.
func (b *rebuild) compare(former, after Generation, oldest int64) error {
	if b.fewer || former.Number == 0 {
		return nil
	}
	const remedy = "the tables that are read stay, unless Fewer switches over all the same"
	switch {
	case after.known() < former.known():
		return fmt.Errorf("%w: generation %d has %d, and generation %d, which is read, has %d: %s",
			ErrFewer, after.Number, after.known(), former.Number, former.known(), remedy)
	case former.beginsBefore(oldest):
		return fmt.Errorf("%w: generation %d begins in %s, and the oldest event in the store is of %s: %s",
			ErrFewer, former.Number, sequenceTime(former.First), sequenceTime(oldest), remedy)
	}
	return nil
}

// beginsBefore reports whether the generation has events that the store does not have, whose oldest is given.
func (g Generation) beginsBefore(oldest int64) bool { return g.First > 0 && oldest > g.First }

// sequenceTime returns the time of a sequence as text.
func sequenceTime(sequence int64) string { return time.UnixMicro(sequence).UTC().Format(time.RFC3339) }

// catchUp handles the events that only the old generation has, whose process waits for the
// transaction. It fails with errBehind if they are many, or one fails.
func (b *rebuild) catchUp(ctx context.Context, tx *sql.Tx, r *runner, to eventstore.Cursor) (Generation, error) {
	if laterOf(to, r.generation.Position) == r.generation.Position {
		return r.generation, nil
	}
	missing := newBatch(b.cfg)
	reading, cancel := context.WithTimeout(ctx, catchUpTimeout)
	defer cancel()
	for item, err := range r.items(reading) {
		if err != nil || item.Err != nil || missing.isFull() {
			return r.generation, errBehind
		}
		if item.CaughtUp && item.Position.Sequence < to.Sequence { // as after a deletion of events
			return r.generation, errBehind
		}
		if item.CaughtUp || laterOf(item.Position, to) != to {
			break
		}
		missing.add(item)
	}
	if reading.Err() != nil {
		return r.generation, errBehind
	}
	missing.position = to
	if err := r.findBodies(reading, missing); err != nil {
		return r.generation, errBehind
	}
	after, err := r.handle(ctx, tx, missing, nil)
	if err != nil {
		return after, fmt.Errorf("%w: %w", errBehind, err)
	}
	return after, nil
}

// limitLocks limits the time for which the transaction waits for programs that read, while
// other programs wait for it.
func (c *connection) limitLocks(ctx context.Context, tx *sql.Tx) error {
	if !c.dialect.IsPostgreSQL {
		return nil
	}
	return database.Exec(ctx, tx, "SET LOCAL lock_timeout = '"+lockTimeout+"'")
}

// retire ends the generation that is read, and returns it; the zero value if none exists.
func (c *connection) retire(ctx context.Context, tx *sql.Tx) (Generation, error) {
	row := tx.QueryRowContext(ctx, `UPDATE watership_projection SET state = 'retired', revision = revision + 1, updated = `+c.dialect.Now+`
		WHERE name = $1 AND state = 'live' RETURNING `+generationColumns, c.cfg.Name)
	former, err := scanGeneration(row)
	if errors.Is(err, sql.ErrNoRows) {
		return Generation{}, nil
	}
	if err != nil {
		return Generation{}, fmt.Errorf("retiring the generation that is read: %w", err)
	}
	return former, nil
}

// enliven makes a generation the one that is read.
func (c *connection) enliven(ctx context.Context, tx *sql.Tx, g Generation) error {
	result, err := tx.ExecContext(ctx, `UPDATE watership_projection SET state = 'live', failure = '', revision = revision + 1, updated = `+c.dialect.Now+`
		WHERE name = $1 AND generation = $2 AND revision = $3 AND state <> 'live'`, c.cfg.Name, g.Number, g.revision)
	if err != nil {
		return fmt.Errorf("making generation %d the one that is read: %w", g.Number, err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(fmt.Errorf("generation %d: %w", g.Number, database.ErrLeaseLost), err)
	}
	return nil
}

package projection

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/watershipmq/watership/internal/database"
)

// Rollback makes the views show the tables that were read before the latest switch-over, in one
// transaction, and returns their generation. The tables that are read now are kept. Run of a program
// with the Config.Version of those tables continues them, after the last event that they have.
func (p *Projection) Rollback(ctx context.Context) (Generation, error) {
	c, err := p.connect(ctx)
	if err != nil {
		return Generation{}, err
	}
	var former Generation
	err = database.InTx(ctx, c.cfg.DB, func(tx *sql.Tx) (err error) {
		former, err = c.rollBack(ctx, tx)
		return err
	})
	if err != nil {
		return Generation{}, fmt.Errorf("projection %s: rolling back: %w", c.cfg.Name, err)
	}
	return former, nil
}

// rollBack ends the generation that is read first, as a switch-over does: only one is read.
func (c *connection) rollBack(ctx context.Context, tx *sql.Tx) (former Generation, err error) {
	live, err := c.retire(ctx, tx)
	if err != nil {
		return former, err
	}
	all, err := c.readGenerations(ctx, tx)
	if err != nil {
		return former, err
	}
	for _, g := range all {
		if g.State == Retired && g.Number != live.Number {
			former = g
		}
	}
	if former.Number == 0 {
		return former, errors.New("there is no former generation: it was dropped, or there was no switch-over")
	}
	if err := c.enliven(ctx, tx, former); err != nil {
		return former, err
	}
	if err := c.limitLocks(ctx, tx); err != nil {
		return former, err
	}
	former.State = Live
	return former, c.showViewsOf(ctx, tx, former, live.tables)
}

// Drop drops the tables of a generation that is not read. It fails while another process fills
// them, and if a program reads them, in a transaction that began before a switch-over.
func (p *Projection) Drop(ctx context.Context, generation int64) error {
	c, err := p.connect(ctx)
	if err == nil {
		err = c.drop(ctx, generation)
	}
	if err != nil {
		return fmt.Errorf("projection %s: dropping generation %d: %w", p.cfg.Name, generation, err)
	}
	return nil
}

func (c *connection) drop(ctx context.Context, number int64) error {
	all, err := c.readGenerations(ctx, c.cfg.DB)
	if err != nil {
		return err
	}
	for _, g := range all {
		switch {
		case g.Number != number:
			continue
		case g.State == Live:
			return errors.New("its tables are read")
		case g.State == Building, g.State == Past:
			return c.dropBuilding(ctx, g)
		}
		return database.InTx(ctx, c.cfg.DB, func(tx *sql.Tx) error { return c.dropGeneration(ctx, tx, g) })
	}
	return errors.New("there is none: status lists the generations")
}

// dropBuilding drops the tables of a generation that no process fills.
func (c *connection) dropBuilding(ctx context.Context, g Generation) error {
	r, err := c.lead(ctx, g)
	switch {
	case err != nil:
		return err
	case r == nil:
		return errors.New("another process fills it")
	}
	defer r.lease.Release(ctx)
	return c.discard(ctx, r)
}

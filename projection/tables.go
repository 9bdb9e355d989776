package projection

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/watershipmq/watership/internal/database"
)

// Tables names the tables of one generation.
type Tables struct{ generation int64 }

// Name returns the name of a table of Config.Tables, or of an index, in the generation that
// Create and Handle work on: customer_totals is customer_totals_g2 in the second one.
func (t Tables) Name(name string) string { return fmt.Sprintf("%s_g%d", name, t.generation) }

// showViews makes the views of the configured tables show a generation that has them, and drops
// tables with former names.
func (c *connection) showViews(ctx context.Context, tx *sql.Tx, generation int64, former []string) error {
	return c.showViewsOf(ctx, tx, Generation{Number: generation, tables: c.cfg.Tables}, former)
}

// showViewsOf makes the views of a generation's tables show them, and drops views of former
// names. In PostgreSQL a view is replaced where the columns allow it, so that privileges and
// views of it stay.
func (c *connection) showViewsOf(ctx context.Context, tx *sql.Tx, g Generation, former []string) error {
	for _, name := range former {
		if !slices.Contains(g.tables, name) || !c.dialect.IsPostgreSQL {
			if err := database.Exec(ctx, tx, "DROP VIEW IF EXISTS "+quoted(name)); err != nil {
				return err
			}
		}
	}
	for _, name := range g.tables {
		definition := fmt.Sprintf("VIEW %s AS SELECT * FROM %s", quoted(name), Tables{g.Number}.Name(name))
		err := c.createView(ctx, tx, name, definition)
		if err != nil {
			return fmt.Errorf("making %s show generation %d: %w", name, g.Number, err)
		}
	}
	return nil
}

func (c *connection) createView(ctx context.Context, tx *sql.Tx, name, definition string) error {
	if !c.dialect.IsPostgreSQL {
		return database.Exec(ctx, tx, "CREATE "+definition)
	}
	err := database.Exec(ctx, tx, "SAVEPOINT before_view", "CREATE OR REPLACE "+definition)
	if err == nil {
		return nil
	}
	return database.Exec(ctx, tx, "ROLLBACK TO SAVEPOINT before_view", "DROP VIEW IF EXISTS "+quoted(name), "CREATE "+definition)
}

// dropTables drops tables of a generation.
func dropTables(ctx context.Context, tx *sql.Tx, generation int64, names []string) error {
	for _, name := range names {
		if err := database.Exec(ctx, tx, "DROP TABLE IF EXISTS "+(Tables{generation}).Name(name)); err != nil {
			return err
		}
	}
	return nil
}

func quoted(name string) string { return `"` + name + `"` }

func joinNames(names []string) string { return strings.Join(names, " ") }

func splitNames(text string) []string { return strings.Fields(text) }

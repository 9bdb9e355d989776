package projection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/watershipmq/watership/eventstore"
	"github.com/watershipmq/watership/internal/database"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/subscription"
)

// UpTo computes the tables as they were at a time, apart from the live tables: another generation gets every
// event that was recorded before, and is never read by the names of Config.Tables (see Generation.Tables). Drop drops it.
// A call that was interrupted is continued by the next one for the same time, and one for tables that are complete
// returns them. Tables of another Config.Version or reader are made again.
//
// Its error is ErrFewer, without a change, if the store no longer has the time in which the tables that are read begin.
func (p *Projection) UpTo(ctx context.Context, at time.Time) (Generation, error) {
	past, err := p.upTo(ctx, at)
	if err != nil {
		err = fmt.Errorf("projection %s: computing the tables of %s: %w", p.cfg.Name, at.UTC().Format(time.RFC3339), err)
	}
	return past, err
}

func (p *Projection) upTo(ctx context.Context, at time.Time) (Generation, error) {
	if at.After(time.Now()) {
		return Generation{}, errors.New("the time is in the future")
	}
	c, err := p.connect(ctx)
	if err != nil {
		return Generation{}, err
	}
	defer c.calls.Close()
	if err := errors.Join(c.checkSource(ctx), c.checkBeginning(ctx)); err != nil {
		return Generation{}, err
	}
	for {
		r, err := await(ctx, c, func() (*runner, error) { return c.nextPast(ctx, at.UnixMicro()) })
		if err != nil {
			return Generation{}, err
		}
		if !r.generation.isComplete() {
			err = r.follow(ctx, func(_ context.Context, r *runner) (bool, error) { return r.generation.isComplete(), nil })
		}
		err = r.end(ctx, err)
		if errors.Is(err, database.ErrLeaseLost) {
			continue
		}
		return r.generation, err
	}
}

// checkBeginning returns ErrFewer if the store no longer has the first events of the tables that are read.
func (c *connection) checkBeginning(ctx context.Context) error {
	live, err := c.liveGeneration(ctx)
	if err != nil {
		return err
	}
	oldest, err := c.cfg.Reader.OldestSequence(ctx)
	if err == nil && live.beginsBefore(oldest) {
		err = fmt.Errorf("%w: generation %d begins in %s, and the oldest event in the store is of %s",
			ErrFewer, live.Number, sequenceTime(live.First), sequenceTime(oldest))
	}
	return err
}

// nextPast returns a runner of the generation up to a time, and creates it if none exists.
func (c *connection) nextPast(ctx context.Context, upTo int64) (*runner, error) {
	all, err := c.readGenerations(ctx, c.cfg.DB)
	if err != nil {
		return nil, err
	}
	for _, g := range all {
		if g.State != Past || g.upTo() != upTo {
			continue
		}
		r, err := c.lead(ctx, g)
		if r != nil && (g.Version != c.cfg.Version || g.reads != c.cfg.reads()) {
			defer r.lease.Release(ctx)
			return nil, c.discard(ctx, r)
		}
		return r, err
	}
	_, err = c.createGeneration(ctx, Past, upTo)
	return nil, err
}

func (g Generation) upTo() int64 {
	if g.UpTo.IsZero() {
		return 0
	}
	return g.UpTo.UnixMicro()
}

// isComplete reports whether a generation of Past has every event.
func (g Generation) isComplete() bool { return g.Position.Sequence >= g.upTo() }

// untilSequence yields the items before a sequence, and then that all of them were yielded.
func untilSequence(items iter.Seq2[subscription.Item, error], end int64) iter.Seq2[subscription.Item, error] {
	return func(yield func(subscription.Item, error) bool) {
		for item, err := range items {
			if err == nil && item.Err == nil && item.Position.Sequence >= end {
				yield(subscription.Item{Position: eventstore.Cursor{Sequence: end}, CaughtUp: true}, nil)
				return
			}
			if !yield(item, err) {
				return
			}
		}
	}
}

func (p *Projection) printUpTo(ctx context.Context, out io.Writer, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("up-to got %d arguments: expected a time such as 2026-05-04T03:00:00Z", len(args))
	}
	at, err := time.Parse(time.RFC3339, args[0])
	if err != nil {
		return fmt.Errorf("%q is no time: expected one such as 2026-05-04T03:00:00Z", args[0])
	}
	g, err := p.UpTo(ctx, at)
	if err != nil {
		return err
	}
	var names []string
	for _, name := range g.tables {
		names = append(names, g.Tables().Name(name))
	}
	fmt.Fprintf(out, "generation %d has %s before %s, in %s; drop %d drops it\n", g.Number, wording.Plural(int(g.Events), "event"), args[0], strings.Join(names, ", "), g.Number)
	return nil
}

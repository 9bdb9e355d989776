package projection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/watershipmq/watership/internal/render/wording"
)

const progressInterval = 5 * time.Second

// Main runs a command of a program that keeps the projection: run, rebuild [--fewer], up-to TIME, rollback,
// drop GENERATION, skip-removed, status or parked. Without arguments it is run. It prints results and the progress
// of a rebuild to out.
func (p *Projection) Main(ctx context.Context, args []string, out io.Writer) error {
	command := "run"
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch command {
	case "rebuild":
		if len(args) > 0 && args[0] == "--fewer" {
			return p.printRebuild(ctx, out, args[1:], Fewer)
		}
		return p.printRebuild(ctx, out, args)
	case "up-to":
		return p.printUpTo(ctx, out, args)
	case "drop":
		return p.printDrop(ctx, out, args)
	}
	commands := map[string]func(context.Context, io.Writer) error{
		"run":      func(ctx context.Context, _ io.Writer) error { return p.Run(ctx) },
		"rollback": p.printRollback, "status": p.printStatus, "parked": p.printParked,
		"skip-removed": func(ctx context.Context, _ io.Writer) error { return p.SkipRemoved(ctx) },
	}
	run := commands[command]
	switch {
	case run == nil:
		return fmt.Errorf("there is no command %q: expected run, rebuild, up-to, rollback, drop, skip-removed, status or parked", command)
	case len(args) > 0:
		return fmt.Errorf("%s has no arguments", command)
	}
	return run(ctx, out)
}

func (p *Projection) printDrop(ctx context.Context, out io.Writer, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("drop got %d arguments: expected the number of a generation, as status prints it", len(args))
	}
	number, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return fmt.Errorf("%q is no generation: expected a number, as status prints it", args[0])
	}
	if err := p.Drop(ctx, number); err != nil {
		return err
	}
	fmt.Fprintf(out, "generation %d is dropped\n", number)
	return nil
}

func (p *Projection) printRollback(ctx context.Context, out io.Writer) error {
	g, err := p.Rollback(ctx)
	if err == nil {
		fmt.Fprintf(out, "generation %d is read again: %s, version %d\n", g.Number, wording.Plural(int(g.Events), "event"), g.Version)
	}
	return err
}

func (p *Projection) printRebuild(ctx context.Context, out io.Writer, rest []string, options ...RebuildOption) error {
	if len(rest) > 0 {
		return fmt.Errorf("rebuild got %q: expected no argument, or --fewer", rest[0])
	}
	reporting, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { p.printProgress(reporting, out) })
	g, err := p.Rebuild(ctx, options...)
	stop()
	work.Wait()
	if ctx.Err() != nil {
		fmt.Fprintln(out, "interrupted; the next rebuild continues this one")
		return nil
	}
	if errors.Is(err, ErrFewer) {
		err = fmt.Errorf("%w (rebuild --fewer does)", err)
	}
	if err == nil {
		fmt.Fprintf(out, "generation %d is read now: %s, version %d\n", g.Number, wording.Plural(int(g.Events), "event"), g.Version)
		p.printFormer(ctx, out)
	}
	return err
}

// printFormer names the generations that take space until they are dropped.
func (p *Projection) printFormer(ctx context.Context, out io.Writer) {
	all, err := p.Generations(ctx)
	if err != nil {
		return // the rebuild has succeeded
	}
	for _, g := range all {
		if g.State == Retired {
			fmt.Fprintf(out, "generation %d is kept: rollback goes back to the latest former one, drop %d drops it\n", g.Number, g.Number)
		}
	}
}

func (p *Projection) printProgress(ctx context.Context, out io.Writer) {
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		all, err := p.Generations(ctx)
		if err != nil {
			continue // Rebuild reports it
		}
		for _, g := range all {
			if g.State == Building {
				fmt.Fprintf(out, "generation %d: %s\n", g.Number, wording.Plural(int(g.Events), "event"))
			}
		}
	}
}

func (p *Projection) printStatus(ctx context.Context, out io.Writer) error {
	all, err := p.Generations(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "GENERATION\tSTATE\tVERSION\tEVENTS\tPARKED\tPOSITION\tUPDATED\tFAILURE")
	for _, g := range all {
		fmt.Fprintf(table, "%d\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n",
			g.Number, g.State, g.Version, g.Events, g.Parked, g.Position.Sequence, g.Updated.Local().Format(time.RFC3339), wording.OneLine(g.Failure))
	}
	return table.Flush()
}

func (p *Projection) printParked(ctx context.Context, out io.Writer) error {
	parked, err := p.Parked(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "GENERATION\tEVENT\tPOSITION\tTIME\tFAILURE")
	for _, e := range parked {
		fmt.Fprintf(table, "%d\t%s\t%d\t%s\t%s\n", e.Generation, e.Position.EventID, e.Position.Sequence, e.Time.Local().Format(time.RFC3339), wording.OneLine(e.Failure))
	}
	return table.Flush()
}

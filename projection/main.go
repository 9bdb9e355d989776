package projection

import (
	"context"
	"fmt"
	"io"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/watershipmq/watership/internal/wording"
)

const progressInterval = 5 * time.Second

// Main runs a command of a program that keeps the projection: run, rebuild, status or parked.
// Without arguments it is run. It prints results and the progress of a rebuild to out.
func (p *Projection) Main(ctx context.Context, args []string, out io.Writer) error {
	command := "run"
	if len(args) > 0 {
		command = args[0]
	}
	if len(args) > 1 {
		return fmt.Errorf("%s has no arguments", command)
	}
	switch command {
	case "run":
		return p.Run(ctx)
	case "rebuild":
		return p.printRebuild(ctx, out)
	case "status":
		return p.printStatus(ctx, out)
	case "parked":
		return p.printParked(ctx, out)
	}
	return fmt.Errorf("there is no command %q: expected run, rebuild, status or parked", command)
}

func (p *Projection) printRebuild(ctx context.Context, out io.Writer) error {
	reporting, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { p.printProgress(reporting, out) })
	g, err := p.Rebuild(ctx)
	stop()
	work.Wait()
	if ctx.Err() != nil {
		fmt.Fprintln(out, "interrupted; the next rebuild continues this one")
		return nil
	}
	if err == nil {
		fmt.Fprintf(out, "generation %d is read now: %s, version %d\n", g.Number, wording.Plural(int(g.Events), "event"), g.Version)
	}
	return err
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
			g.Number, g.State, g.Version, g.Events, g.Parked, g.Position.Sequence, g.Updated.Local().Format(time.DateTime), wording.OneLine(g.Failure))
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
		fmt.Fprintf(table, "%d\t%s\t%d\t%s\t%s\n", e.Generation, e.Position.EventID, e.Position.Sequence, e.Time.Local().Format(time.DateTime), wording.OneLine(e.Failure))
	}
	return table.Flush()
}

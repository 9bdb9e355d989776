package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/terminal"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/edit"
)

func newReplay(from *settings) *cobra.Command {
	var r replay
	cmd := &cobra.Command{
		Use:   "replay [QUERY]",
		Short: "Send the messages that a query finds again",
		Long: `replay sends each message that the query finds, once, in the order in which they
were recorded: to the exchange and routing key that it was first published to,
only to the queue that failed, or to another queue or exchange. What is sent is
the message as first published, with headers that mark the job.

It shows what would be sent before anything is; a terminal is asked, a script
needs --yes. What was replayed to the same target before is left out, unless it
failed again since, and so is what another replay is sending now. So is a failure
that was handled or discarded since, or that is tried again soon, where messages go
back to where they came from; --again sends all of them.

A replay is a job, which is kept: who sent what, why, and how far it came. It
waits up to five minutes for a broker or a store that is away; after a crash,
'watership jobs resume' goes on where it stopped.

A message whose headers are changed is another message to whoever receives it:
it has another fingerprint. The failure that it replays counts as resolved all
the same, since the copy carries the id of the failure's event.`,
		Example: `  watership replay 'action: poisoned and queue: orders' --to-failed-queue --dry-run
  watership replay 'action: poisoned and error.type: timeout' --to-failed-queue --yes --rate 50
  watership replay --ids failed.txt --to-queue orders.repair --expect 12 --yes
  watership replay 'destination.name: shop' --from 2026-05-04T03:00:00Z --canary 10`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Streams = streamsOf(cmd)
			r.query = strings.TrimSpace(strings.Join(args, " "))
			r.keyGiven = cmd.Flags().Changed("key")
			r.expecting = cmd.Flags().Changed("expect")
			if err := r.validate(); err != nil {
				return err
			}
			s, err := from.system(r.Streams)
			if err != nil {
				return err
			}
			return s.replay(cmd.Context(), r)
		},
	}
	r.addFlags(cmd)
	return cmd
}

// replay holds the arguments of `replay`.
type replay struct {
	terminal.Streams
	query      string
	ids, group string
	names      []string // in the file ids
	dsl        string
	period     span

	toFailedQueue    bool
	toQueue          string
	toExchange, key  string
	keyGiven         bool
	changes          edit.Changes
	operator, reason string

	dryRun, yes, again bool
	uncheckedRoutes    bool
	rate               float64
	limit              int
	expect             int
	expecting          bool
	canary             int
	canaryWait         time.Duration
}

func (s system) replay(ctx context.Context, r replay) (err error) {
	if err := r.readIDs(); err != nil {
		return err
	}
	job, err := s.job(r)
	if err != nil {
		return err
	}
	replays, closing, err := s.replayer(ctx, &r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	plan, err := replays.Plan(ctx, job)
	if err != nil {
		return err
	}
	if err := s.preview(ctx, r, plan); err != nil {
		return err
	}
	if agreed, err := r.agreed(ctx, plan); !agreed {
		return err
	}
	begun, err := replays.Create(ctx, plan)
	if err != nil {
		return err
	}
	return r.carryOut(ctx, replays, begun)
}

// preview shows a plan. A plan that could not be shown is not sent, so a closed pipe
// is an error here, unlike in other commands: the user relies on the preview.
func (s system) preview(ctx context.Context, r replay, plan replayer.Plan) error {
	if plan.Total == 0 && len(plan.LeftOut) == 0 {
		if err := s.checkStore(ctx); err != nil {
			return err
		}
	}
	err := writePreview(r.Out, plan)
	if err == nil {
		err = s.writeUnknown(ctx, r.Out, r.names)
	}
	if outputUnwanted(err) && !r.dryRun {
		return fmt.Errorf("nothing was sent: showing what would be failed: %v", err)
	}
	return err
}

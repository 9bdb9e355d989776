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
		Short: "Send the messages that match a query again",
		Long: `Send each message that matches a query once, in the order in which the messages
were recorded: to its original exchange and routing key, only to the queue that
failed, or to another queue or exchange. The message is sent as first published,
with headers that name the job.

A preview is shown before anything is sent. A terminal prompts for confirmation; a
script needs --yes.

Left out, unless --again is set:
  - messages that were replayed to the same target and have not failed since
  - messages that another replay is sending
  - for messages that return to their origin: failures that were handled or
    discarded since, or that will be retried soon

Each replay is a job with a record of its query, operator, reason and progress. It
waits up to five minutes for a broker or store that is unavailable. After a crash,
continue it with 'watership jobs resume'.

A message with changed headers has another fingerprint. It still resolves the
failure that it replays, since it carries the id of the failure's event.`,
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

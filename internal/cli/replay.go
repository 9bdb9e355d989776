package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/watershipmq/watership/internal/cli/terminal"
	"github.com/watershipmq/watership/internal/history"
	"github.com/watershipmq/watership/internal/operate/replays"
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/operation/eventfilter"
	"github.com/watershipmq/watership/internal/render/wording"
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/edit"
)

func newReplay(from *settings) *cobra.Command { return new(replay).command(from) }

func (r *replay) command(from *settings) *cobra.Command {
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

--transform changes or leaves out messages by a program in the language of jq. Its input
and its output are an object with the members body, headers, properties, exchange and
routing_key. The body is the value of a JSON body; another body is the text body_text, or
body_base64 if it is no UTF-8. null or empty leaves a message out. A message for which
the program fails is not sent, and the job goes on.

--pace sends messages with the spacing of their events: 1x as it was, 2x twice as fast.
--at-most-in-flight waits until consumers have reported that messages are handled, or have
failed. --order stream sends a message of a stream when the one before it was handled,
and many streams side by side.

--ramp 1,5,20,100 sends a hundredth of the messages, waits for their outcomes, and then
goes on to 5 % of all, to 20 % and to the rest. --stop-if 'failed > 2%' pauses the job when
more of a step fail, also while it is sent; 'failed timeout > 10' counts failures of a
class. Without it any failure does. What a consumer does not report counts as good after
--outcome-wait if failures come back from its queue; otherwise the step cannot be judged,
which pauses the job, too. 'watership jobs resume' accepts that and goes on.

--shadow URL publishes nothing. It calls a candidate version of an HTTP service with each
message, and compares its outcome with the recorded one: whether it handles the message, the
error, and the outgoing messages that its response lists. The exit code is 0 without
differences, 3 with some, and 1 after an error.

With --follow it is a subscription without a name and without a record: history in
order and then each new message, with its position in a header, until Ctrl-C. See
'watership subscribe' for one that survives.

A message with changed headers has another fingerprint. It still resolves the
failure that it replays, since it carries the id of the failure's event.`,
		Example: `  watership replay 'action: poisoned and queue: orders' --to-failed-queue --dry-run
  watership replay 'action: poisoned and error.type: timeout' --to-failed-queue --yes --rate 50
  watership replay --ids failed.txt --to-queue orders.repair --expect 12 --yes
  watership replay 'queue: orders and action: poisoned' --transform fix.jq --dry-run
  watership replay 'action: handled and queue: orders' --shadow http://localhost:8081/orders --sample 10%
  watership replay 'destination.name: shop' --from 2026-05-04T03:00:00Z --canary 10
  watership replay 'queue: orders and action: poisoned' --to-failed-queue --ramp 1,5,20,100 --stop-if 'failed > 2%' --yes
  watership replay 'destination.name: shop' --to-queue orders.copy --follow --yes`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Streams = streamsOf(cmd)
			r.query = strings.TrimSpace(strings.Join(args, " "))
			if r.failuresAlone {
				if err := r.selectFailures(); err != nil {
					return err
				}
			}
			r.keyGiven = cmd.Flags().Changed("key")
			if err := r.shadow.check(cmd); err != nil {
				return err
			}
			if err := cmp.Or(r.validate(), r.checkOperator(from)); err != nil {
				return err
			}
			if r.shadow.url != "" {
				return r.runShadow(cmd, from)
			}
			if r.follow {
				return r.runFollow(cmd, from)
			}
			return from.withSystem(cmd, func(ctx context.Context, sys backend) error { return r.run(ctx, sys) })
		},
	}
	r.addFlags(cmd)
	return cmd
}

// replay holds the arguments of `replay`.
type replay struct {
	action
	query  string
	stream string // whose messages the query selects; "": none
	group  string
	groups []string // that the query may name instead
	names  []string // in the file of --ids

	toFailedQueue   bool
	toQueue         string
	toExchange, key string
	keyGiven        bool
	changes         edit.Changes
	transform       string // file
	program         string // of transform; "": it is not read yet
	failuresAlone   bool
	dropReplyTo     bool

	again, follow    bool
	uncheckedRoutes  bool
	rate             float64
	pace             pace
	maxGap           time.Duration
	inFlight         int
	order, onFailure string
	limit            int
	steps            stepFlags

	shadow shadowFlags
}

func (r *replay) run(ctx context.Context, sys backend) error {
	ofGroups, err := queryOfGroups(ctx, sys, r.groups)
	if err != nil {
		return err
	}
	r.query = cmp.Or(ofGroups, r.query)
	if err := r.orderAsPublished(ctx, sys); err != nil {
		return err
	}
	ctx = withOperator(ctx, r.operator)
	plan, err := r.plan(ctx, sys)
	if err != nil {
		return err
	}
	texts := *r
	if texts.Out = r.readers(); r.format.is("json") && r.yes {
		texts.Out = r.Err // the JSON of a job does not have the messages that the plan leaves out
	}
	job, err := texts.send(ctx, sys, plan)
	return r.printAnswer(ctx, sys, plan, job, err)
}

// printAnswer prints the plan as JSON, or the job once there is one.
func (r *replay) printAnswer(ctx context.Context, sys operation.Via, plan replayPlan, job replayer.Job, err error) error {
	switch {
	case !r.format.is("json"):
		return err
	case job.ID == "":
		return errors.Join(r.writeJSON(plan.shown), err)
	}
	ran, readErr := replays.GetReplay.Call(context.WithoutCancel(ctx), sys, replays.JobInput{ID: job.ID})
	if readErr != nil {
		return cmp.Or(err, readErr)
	}
	return cmp.Or(err, r.writeJSON(ran.Body))
}

func (r *replay) plan(ctx context.Context, sys backend) (replayPlan, error) {
	request, err := r.request()
	if err != nil {
		return replayPlan{}, err
	}
	return planReplay(ctx, sys, request, r.uncheckedRoutes)
}

// send shows a plan, asks, and runs its job. It returns no job if nothing was sent.
func (r *replay) send(ctx context.Context, sys backend, plan replayPlan) (replayer.Job, error) {
	if err := r.preview(plan); err != nil {
		return replayer.Job{}, err
	}
	r.warnOfPauses(ctx, sys, plan)
	if agreed, err := r.confirm(ctx, plan); !agreed {
		return replayer.Job{}, err
	}
	return r.execute(ctx, sys, plan)
}

// warnOfPauses warns of queues whose routes are paused: the messages wait there, and the outcome of a
// canary does not come. States that cannot be read are no reason to stop.
func (r *replay) warnOfPauses(ctx context.Context, sys backend, plan replayPlan) {
	if r.target().Kind != replayer.ToFailedQueue && r.target().Kind != replayer.ToQueue || plan.Matched == 0 {
		return
	}
	states, _ := routeStates(ctx, sys)
	for _, route := range states {
		if route.State == "paused" && slices.ContainsFunc(plan.Routes, func(to replayer.Route) bool { return to.Queue == route.Queue }) {
			text := terminal.Cell(route.PauseText(), 0)
			if route.Since != nil {
				text += ", since " + terminal.Time(*route.Since)
			}
			fmt.Fprintf(r.Out, "WARNING: nothing is handled: %s\n", text)
		}
	}
}

// confirm reports whether to run a plan. If not, the error has the reason; --dry-run
// and an empty plan have none, unless it is one of failures.
func (r *replay) confirm(ctx context.Context, plan replayPlan) (bool, error) {
	if err := checkNumber(r.expect, plan.Matched, "message"); err != nil {
		return false, err
	}
	if r.dryRun {
		return false, r.checkFound(plan)
	}
	if err := cmp.Or(replays.CheckPlan(plan.Plan, r.uncheckedRoutes, r.yes), r.checkFound(plan)); err != nil || plan.Matched == 0 {
		return false, err
	}
	if r.yes {
		return true, nil
	}
	yes, err := r.Ask(ctx, fmt.Sprintf("Send %s?", wording.Plural(plan.Matched, "message")))
	if err == nil && !yes {
		err = errors.New("nothing was sent")
	}
	return yes, err
}

// checkFound returns an error if no failure is sent again, or none of the ids names a message,
// unless --expect says so. A query may find nothing.
func (r *replay) checkFound(plan replayPlan) error {
	switch {
	case plan.Matched > 0 || r.expect != nil:
		return nil
	case r.failuresAlone && history.IsID(r.group):
		return fmt.Errorf("no unresolved failure matches: --group is the text of watership.error_group; by its name, a group is retried with 'watership failed retry %s'", r.group)
	case r.failuresAlone:
		return errors.New("no unresolved failure matches")
	case len(r.names) > 0 && len(plan.LeftOut) == 0 && len(plan.Unknown) == min(len(r.names), eventfilter.MaxUnknown):
		return errors.New("no message of these ids was found: nothing was sent")
	}
	return nil
}

// preview shows a plan. A plan that could not be shown is not sent, so a closed pipe
// is an error here, unlike in other commands: the user relies on the preview.
func (r *replay) preview(plan replayPlan) error {
	err := writePreview(r.Out, plan.Plan)
	if err == nil {
		_, err = io.WriteString(r.Out, effectLines(plan.shown.Effects)+parkedLines(plan.Parked...)+unknownLine(plan.Unknown))
	}
	if outputClosed(err) && !r.dryRun {
		return fmt.Errorf("cannot print the preview, so nothing was sent: %v", err)
	}
	return err
}
